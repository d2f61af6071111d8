"""Contextual bandit with a softmax policy, trained by REINFORCE."""
import torch
import torch.nn as nn

torch.manual_seed(13)
ARMS, CONTEXT = 4, 6
truth = torch.randn(CONTEXT, ARMS)
policy = nn.Linear(CONTEXT, ARMS)
optimizer = torch.optim.RMSprop(policy.parameters(), lr=0.01)


def pull(context, arm):
    return (context @ truth).gather(1, arm[:, None]).squeeze(1)


def update(log_prob, reward):
    advantage = reward - reward.mean()
    loss = -(log_prob * advantage).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


rewards = []
for episode in range(30):
    context = torch.randn(64, CONTEXT)
    dist = torch.distributions.Categorical(logits=policy(context))
    arm = dist.sample()
    reward = pull(context, arm)
    loss = update(dist.log_prob(arm), reward)
    optimizer.step()
    rewards.append(reward.mean().item())

print(f"first {rewards[0]:.3f} last {rewards[-1]:.3f}")
