"""What each event does to the books, seen through the entry it returns."""

from gradkeeper.model import Ledger, Site
from gradkeeper.model.account import MOST_FRESH
from gradkeeper.model.events import (
    Adopt,
    Again,
    Assign,
    Backward,
    Batch,
    Close,
    EpochBegin,
    Move,
    Open,
    Split,
    Step,
    Unscale,
    Zero,
)

BUILT, LOSS, STEP, ZERO = (Site("train.py", line) for line in (3, 11, 12, 13))


def ledger_with(*accounts: str, owner: str = "optimizer") -> Ledger:
    ledger = Ledger()
    ledger.post(Adopt(site=BUILT, optimizer=owner, accounts=accounts))
    return ledger


def test_a_backward_credits_its_accounts_and_no_other() -> None:
    ledger = ledger_with("model", "other")

    entry = ledger.post(Backward(site=LOSS, accounts=("model",)))

    assert not entry.before["model"].fresh
    assert len(entry.after["model"].fresh) == 1
    assert not ledger.accounts["other"].fresh


def test_a_step_spends_what_is_fresh_and_leaves_it_lying() -> None:
    ledger = ledger_with("model")
    ledger.post(Backward(site=LOSS, accounts=("model",)))

    entry = ledger.post(Step(site=STEP, optimizer="optimizer"))

    assert [credit.site for credit in entry.spent] == [LOSS]
    (lot,) = entry.after["model"].lots
    assert (lot.site, lot.spent_at, lot.owners) == (LOSS, STEP, frozenset({"optimizer"}))
    assert not entry.after["model"].fresh


def test_a_refused_step_spends_nothing() -> None:
    ledger = ledger_with("model")
    ledger.post(Backward(site=LOSS, accounts=("model",)))

    entry = ledger.post(Step(site=STEP, optimizer="optimizer", taken=False))

    assert entry.spent == ()
    assert entry.before == entry.after
    assert ledger.optimizers["optimizer"].skipped == 1


def test_zeroing_closes_the_account() -> None:
    ledger = ledger_with("model")
    ledger.post(Backward(site=LOSS, accounts=("model",)))
    ledger.post(Step(site=STEP, optimizer="optimizer"))

    entry = ledger.post(Zero(site=ZERO, accounts=("model",)))

    assert entry.wasted == ()
    assert not entry.after["model"].lots
    assert entry.after["model"].zeroed_at == ZERO


def test_zeroing_what_nobody_spent_is_a_loss() -> None:
    ledger = ledger_with("model")
    ledger.post(Backward(site=LOSS, accounts=("model",)))

    entry = ledger.post(Zero(site=ZERO, accounts=("model",)))

    (waste,) = entry.wasted
    assert (waste.site, waste.zeroed_at, waste.count) == (LOSS, ZERO, 1)


def test_a_share_thrown_away_is_no_loss_while_another_share_waits() -> None:
    ledger = ledger_with("generator")
    ledger.post(Backward(site=LOSS, accounts=("generator", "discriminator")))

    entry = ledger.post(Zero(site=ZERO, accounts=("discriminator",)))
    spent = ledger.post(Step(site=STEP, optimizer="optimizer"))

    assert entry.wasted == ()
    assert len(spent.spent) == 1


def test_moving_weights_by_hand_excuses_what_is_zeroed_afterwards() -> None:
    ledger = ledger_with("model")
    ledger.post(Backward(site=LOSS, accounts=("model",)))
    ledger.post(Move(site=STEP, accounts=("model",)))

    entry = ledger.post(Zero(site=ZERO, accounts=("model",)))

    assert entry.wasted == ()


def test_a_gradient_put_in_place_by_hand_replaces_what_was_there() -> None:
    ledger = ledger_with("model")
    ledger.post(Backward(site=LOSS, accounts=("model",)))
    ledger.post(Assign(site=ZERO, accounts=("model",)))

    entry = ledger.post(Step(site=STEP, optimizer="optimizer"))

    (credit,) = entry.spent
    assert credit.by_hand


def test_unscaling_takes_the_factor_out_of_that_optimizers_accounts() -> None:
    ledger = ledger_with("model")
    ledger.post(Backward(site=LOSS, accounts=("model", "other"), scaler="scaler"))

    ledger.post(Unscale(site=STEP, scaler="scaler", optimizer="optimizer"))

    assert ledger.accounts["model"].scaler is None
    assert ledger.accounts["other"].scaler == "scaler"


def test_parts_of_a_split_account_go_on_with_its_history() -> None:
    ledger = ledger_with("model")
    ledger.post(Open(site=BUILT, account="model", size=4))
    ledger.post(Backward(site=LOSS, accounts=("model",)))

    ledger.post(Split(site=ZERO, account="model", into=("model.body", "model.head")))
    half = ledger.post(Zero(site=ZERO, accounts=("model.head",)))
    entry = ledger.post(Step(site=STEP, optimizer="optimizer"))

    assert half.wasted == ()
    assert len(entry.spent) == 1
    assert set(entry.before) == {"model.body", "model.head"}
    assert "model" not in ledger.accounts


def test_an_optimizer_can_take_on_more_later() -> None:
    ledger = ledger_with("model")

    ledger.post(Adopt(site=BUILT, optimizer="optimizer", accounts=("head",)))

    assert ledger.optimizers["optimizer"].accounts == ("model", "head")


def test_a_window_knows_its_batches_and_its_divisor() -> None:
    ledger = ledger_with("model")
    for _ in range(4):
        ledger.post(Batch(site=LOSS))
        ledger.post(Backward(site=LOSS, accounts=("model",), multiplier=0.25))

    entry = ledger.post(Step(site=STEP, optimizer="optimizer"))

    assert entry.window is not None
    assert (entry.window.size, entry.window.divisor) == (4, 4)


def test_several_losses_of_one_batch_make_a_window_of_one() -> None:
    ledger = ledger_with("model")
    ledger.post(Batch(site=LOSS))
    for _ in range(3):
        ledger.post(Backward(site=LOSS, accounts=("model",)))

    entry = ledger.post(Step(site=STEP, optimizer="optimizer"))

    assert entry.window is not None
    assert entry.window.size == 1


def test_a_loop_that_never_steps_is_kept_in_flat_memory() -> None:
    ledger = ledger_with("model")

    for _ in range(3 * MOST_FRESH):
        ledger.post(Backward(site=LOSS, accounts=("model",)))

    assert len(ledger.accounts["model"].fresh) == MOST_FRESH


def test_closing_empties_the_books() -> None:
    ledger = ledger_with("model")
    ledger.post(Backward(site=LOSS, accounts=("model",)))

    entry = ledger.post(Close(site=ZERO))

    assert set(entry.optimizers) == {"optimizer"}
    assert len(entry.pending) == 1
    assert not ledger.accounts
    assert not ledger.optimizers


def test_closing_one_optimizer_leaves_the_others() -> None:
    ledger = ledger_with("model")
    ledger.post(Adopt(site=BUILT, optimizer="second", accounts=("head",)))

    entry = ledger.post(Close(site=ZERO, optimizers=("second",)))

    assert set(entry.optimizers) == {"second"}
    assert set(ledger.optimizers) == {"optimizer"}
    assert set(ledger.accounts) == {"model"}


def test_again_counts_as_if_the_round_had_been_posted_so_often() -> None:
    round_ = (
        Backward(site=LOSS, accounts=("model",)),
        Zero(site=ZERO, accounts=("model",)),
        Backward(site=LOSS, accounts=("model",)),
        Step(site=STEP, optimizer="optimizer"),
        Zero(site=ZERO, accounts=("model",)),
    )
    told, counted = ledger_with("model"), ledger_with("model")
    for event in 7 * round_:
        told.post(event)
    for event in 2 * round_:
        counted.post(event)

    counted.post(Again(site=ZERO, length=len(round_), times=5))

    whole, folded = told.post(Close(site=ZERO)), counted.post(Close(site=ZERO))
    assert [(one.made, one.spent, one.wasted) for one in folded.trails] == [(14, 7, 7)]
    assert [(one.made, one.spent, one.wasted) for one in whole.trails] == [(14, 7, 7)]
    assert folded.optimizers["optimizer"].steps == whole.optimizers["optimizer"].steps == 7


def test_again_spends_nothing_that_the_round_has_not_spent() -> None:
    ledger = ledger_with("model")
    for _ in range(2):
        ledger.post(Backward(site=LOSS, accounts=("model",)))

    ledger.post(Again(site=LOSS, length=1, times=5, lines=(LOSS,)))

    closing = ledger.post(Close(site=ZERO))
    assert [(one.made, one.spent, one.wasted) for one in closing.trails] == [(7, 0, 0)]


def test_again_without_its_round_changes_nothing() -> None:
    ledger = ledger_with("model")
    ledger.post(Backward(site=LOSS, accounts=("model",)))
    before = dict(ledger.accounts)

    ledger.post(Again(site=LOSS, length=40, times=5, lines=(LOSS,)))

    assert dict(ledger.accounts) == before


def test_a_line_that_serves_two_owners_is_counted_for_each_and_closed_as_one() -> None:
    ledger = ledger_with("critic", owner="critic")
    ledger.post(Adopt(site=BUILT, optimizer="actor", accounts=("actor",)))
    for _ in range(8):
        ledger.post(Backward(site=LOSS, accounts=("critic",)))
        ledger.post(Zero(site=ZERO, accounts=("critic",)))
        ledger.post(Backward(site=LOSS, accounts=("critic",)))
        entry = ledger.post(Step(site=STEP, optimizer="critic"))
        ledger.post(Zero(site=ZERO, accounts=("critic",)))
        ledger.post(Backward(site=LOSS, accounts=("actor", "critic")))
        ledger.post(Step(site=STEP, optimizer="actor"))
        ledger.post(Zero(site=ZERO, accounts=("actor", "critic")))

    closing = ledger.post(Close(site=ZERO))

    assert [one.systematic for one in entry.trails] == [True]
    assert [(one.made, one.spent, one.wasted) for one in closing.trails] == [(24, 16, 8)]


def test_gradients_of_an_input_are_no_loss_while_the_step_has_others_to_spend() -> None:
    ledger = ledger_with("model")
    for _ in range(3):
        ledger.post(Backward(site=LOSS, accounts=("model",), leaf=True))
        ledger.post(Zero(site=ZERO, accounts=("model",)))
        ledger.post(Backward(site=BUILT, accounts=("model",)))
        entry = ledger.post(Step(site=STEP, optimizer="optimizer"))

    assert entry.wasted == ()


def test_gradients_of_an_input_are_a_loss_where_the_step_finds_nothing_else() -> None:
    ledger = ledger_with("model")
    for _ in range(3):
        ledger.post(Backward(site=LOSS, accounts=("model",), leaf=True))
        ledger.post(Zero(site=ZERO, accounts=("model",)))
        entry = ledger.post(Step(site=STEP, optimizer="optimizer"))

    assert [one.systematic for one in entry.trails] == [True]


def test_a_window_knows_its_epochs_in_whatever_order_accounts_hold_it() -> None:
    """Of two accounts, the first holds the last batch only: what was zeroed is not in it."""
    ledger = ledger_with("head", "body")
    for _ in range(2):
        ledger.post(EpochBegin(site=LOSS, source="loader"))
        ledger.post(Zero(site=ZERO, accounts=("head",)))
        ledger.post(Batch(site=LOSS, source="loader"))
        ledger.post(Backward(site=LOSS, accounts=("head", "body")))

    window = ledger.post(Step(site=STEP, optimizer="optimizer")).window

    assert window is not None
    assert (window.size, window.last_epoch - window.first_epoch) == (2, 1)
