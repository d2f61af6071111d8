-- What a user of Neovim does: opens a file, reads what is said of it, types, hovers, takes the fix.
-- vim.fn.argv() holds nothing: the file, the server and where to report come by the environment.
local report = { steps = {} }
local patience = 120000

local function note(name, value)
  report[name] = value
  table.insert(report.steps, name)
end

local function finish()
  local out = io.open(vim.env.REPORT, "w")
  out:write(vim.fn.json_encode(report))
  out:close()
  vim.cmd("qa!")
end

local ok, err = pcall(function()
  vim.cmd("edit " .. vim.fn.fnameescape(vim.env.TRAIN))
  local buffer = vim.api.nvim_get_current_buf()
  local client = vim.lsp.start_client({
    name = "gradkeeper",
    cmd = { vim.env.PYTHON, "-m", "gradkeeper", "server" },
    root_dir = vim.fn.getcwd(),
  })
  vim.lsp.buf_attach_client(buffer, client)

  local function wait_for(count)
    local there = vim.wait(patience, function()
      return #vim.diagnostic.get(buffer) == count
    end, 50)
    assert(there, "waited in vain for " .. count .. " diagnostics")
    return vim.diagnostic.get(buffer)
  end

  local found = wait_for(1)[1]
  note("found", { code = found.code, line = found.lnum + 1, source = found.source, message = found.message })

  vim.api.nvim_win_set_cursor(0, { found.lnum + 1, 6 })
  local place = vim.lsp.util.make_position_params()
  local hover = vim.lsp.buf_request_sync(buffer, "textDocument/hover", place, patience)
  note("hover", hover[client].result.contents.value)

  vim.api.nvim_buf_set_lines(buffer, -1, -1, false, { "    optimizer.zero_grad()" })
  wait_for(0)
  note("typed", vim.api.nvim_buf_get_option(buffer, "modified"))
  vim.cmd("undo")
  wait_for(1)

  local range = vim.lsp.util.make_range_params()
  range.context = { diagnostics = {} }
  local actions = vim.lsp.buf_request_sync(buffer, "textDocument/codeAction", range, patience)[client].result
  local titles = {}
  for _, action in ipairs(actions) do
    table.insert(titles, action.title)
  end
  note("actions", titles)
  vim.lsp.util.apply_workspace_edit(actions[1].edit, "utf-16")
  wait_for(0)
  note("mended", table.concat(vim.api.nvim_buf_get_lines(buffer, 0, -1, false), "\n"))
end)
if not ok then
  report.error = tostring(err)
end
finish()
