"""gradkeeper inside other people's tools. Each module stands alone and imports its tool itself.

pytest_plugin  tests that train fail where their gradients go astray: fixture, marker, --gradkeeper
jupyter        %%gradkeeper: cells under watch
rebuilt        a note when a cell that builds an optimizer is run again
lightning      a callback around fit
transformers   a callback around train
called_watch   what the callbacks share: a watch that begins and ends by two calls
tensorboard    what the engine and watch tell, as scalars and text
wandb          what the engine tells, as metrics of a Weights & Biases run
mlflow         the same, of an MLflow run
ignoring       which rules a user's words leave out, written alike everywhere
"""
