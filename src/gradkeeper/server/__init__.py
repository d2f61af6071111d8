"""The linter inside an editor: a language server, on pygls (the extra `lsp`).

service    what an editor asks and is told, and when: the conversation
projects   the open files, their projects, and what is said of them: a worker's side of it
protocol   findings as diagnostics, hovers and code actions
positions  lines and columns, as editors count them

Checks run in one thread beside the conversation, on the text as it stands in the editor.
"""
