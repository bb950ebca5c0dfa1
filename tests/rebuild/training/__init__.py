"""How the drafts and the built-in target are made, in plain PyTorch.

``python -m tests.rebuild.training.build OUT_DIR`` makes the built-in pair again, bit for bit: a
byte language, a target and two drafts. ``build_smollm2`` trains the draft of a real language
model on text of its own. What both do alike is in ``eagle3``, ``network`` and ``replay``.
Imported by nobody at pytest start: every module here but ``language`` and ``chat_prompts`` needs
torch.
"""
