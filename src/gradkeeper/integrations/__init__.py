"""gradkeeper inside other people's tools. Each module stands alone and imports its tool itself.

pytest_plugin  fixture, marker, --gradkeeper      jupyter       %%gradkeeper, rebuilt optimizers
lightning      a callback around fit              transformers  a callback around train
tensorboard    what the engine and watch tell     watching      what the callbacks share
"""
