-- Tells what rspamd makes of the text parts of each mail, for finding out why a digest is
-- another one: a line of JSON for each mail in the file that the environment names.
local ucl = require "ucl"

local path = os.getenv("BULKHEAD_OBSERVED")

rspamd_config.OBSERVE = {
  callback = function(task)
    local mail = { id = tostring(task:get_request_header("X-Sample") or ""), parts = {} }
    for _, part in ipairs(task:get_text_parts() or {}) do
      local text = part:get_content("content_oneline")
      table.insert(mail.parts, {
        html = part:is_html(),
        empty = part:is_empty(),
        language = part:get_language() or "",
        text = text and tostring(text) or "",
        words = part:get_words("norm"),
        stems = part:get_words("stem"),
        digest = part:get_fuzzy_hashes(task:get_mempool()),
      })
    end
    local line = ucl.to_format(mail, "json-compact") .. "\n"
    local out = io.open(path, "a")
    out:setvbuf("full", #line) -- one write: two of us append to the file
    out:write(line)
    out:close()
    return false
  end,
}
