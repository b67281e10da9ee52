--[[
Asks a bulkhead node about mail over HTTP, and votes there. docs/plugins.md of
bulkhead says how to set it up.

It hands over the whole mail with what rspamd has verified, and inserts a symbol for the
class that the node gives it, with the reason as option. What rspamc learns is a vote, if
the classifier's learn_condition asks this plugin. While the node is away, slow or says
what cannot be understood, there is no symbol but BULKHEAD_FAIL, which scores nothing,
and votes wait on disk: see "bulkhead waiting".
]]--

if confighelp then
  return
end

local N = 'bulkhead'

local lua_bayes_learn = require 'lua_bayes_learn'
local rspamd_http = require 'rspamd_http'
local rspamd_logger = require 'rspamd_logger'
local rspamd_util = require 'rspamd_util'
local ucl = require 'ucl'

local settings = {
  server = 'http://127.0.0.1:8420',
  token = nil, -- of an account, for a node elsewhere
  timeout = 3.0, -- seconds
  max_size = 4 * 1024 * 1024, -- bytes of a mail that is sent
  count = true, -- delivered mail is counted. false where the milter of the node counts it
  waiting = '/var/spool/bulkhead', -- below it votes wait while the node is away. '': they are lost
  user = false, -- a vote names its user: the header User of the request, or its recipient
  full_confidence = 80, -- from which a symbol has its whole score
}

-- The symbol of each class, with its score. With rspamd's own limits spam is junk.
local symbols = {
  spam = { 'BULKHEAD_SPAM', 8.0, 'reported as spam' },
  suspected = { 'BULKHEAD_SUSPECTED', 3.0, 'like mail that was reported as spam' },
  bulk = { 'BULKHEAD_BULK', 0.5, 'sent to many' },
  good = { 'BULKHEAD_GOOD', -1.0, 'whitelisted, or its sender is well known here' },
}

-- The symbol of a suspected message that hardly differs from a reported one, if SPF and DKIM
-- say that nobody answers for it. With that of its class it is junk by rspamd's own limits.
local unanswered = { 'BULKHEAD_UNANSWERED', 3.5, 'nearly a reported mail, and SPF and DKIM name no sender' }
local least_confidence = 45 -- of a suspicion: that of a whole vote
local most_sightings = 10 -- for each vote, of which nobody has complained

local max_answer = 2 * 1024 * 1024
local max_recipients = 100
local max_address = 998 -- bytes: the node refuses requests with longer ones

local opts = rspamd_config:get_all_opt(N)
if not opts then
  rspamd_logger.infox(rspamd_config, '%s is not configured: not loaded', N)
  return
end
for k, v in pairs(opts) do
  settings[k] = v
end

-- escape writes a value as a part of a query.
local function escape(text)
  return (tostring(text):gsub('[^%w._~-]', function(c)
    return string.format('%%%02X', string.byte(c))
  end))
end

-- one_line keeps of a text what fits into an option.
local function one_line(text)
  return (tostring(text):gsub('[^\32-\126]', ' '):sub(1, 160))
end

local function headers()
  return settings.token and { ['Authorization'] = 'Bearer ' .. settings.token } or {}
end

-- decode returns the table that an answer is, or nil, why it is none, and whether that may pass.
local function decode(err, code, body)
  if err then
    return nil, err, true
  end
  body = tostring(body or '')
  if #body > max_answer then
    return nil, 'an answer of ' .. #body .. ' bytes', true
  end
  local parser = ucl.parser()
  local ok, why = parser:parse_string(body)
  local answer = ok and parser:get_object() or nil
  if code ~= 200 then
    return nil, string.format('%s %s', code, one_line(type(answer) == 'table' and answer.detail or '')),
      code >= 500 or code == 429 or code == 408
  end
  if type(answer) ~= 'table' then
    return nil, 'an answer that is none: ' .. one_line(why), true
  end
  return answer
end

-- post sends a body to the node, as part of a task or beside it (see beside), and calls done
-- with the answer, or with nil and why there is none. It says whether it could be sent.
local function post(where, path, mime_type, body, done)
  local request = {
    url = settings.server .. path,
    method = 'post',
    body = body,
    mime_type = mime_type,
    headers = headers(),
    timeout = settings.timeout,
    max_size = max_answer,
    callback = function(err, code, answer)
      done(decode(err, code, answer))
    end,
  }
  for k, v in pairs(where) do
    request[k] = v
  end
  return rspamd_http.request(request)
end

-- beside has a request outlive its task.
local function beside(task)
  return { config = rspamd_config, ev_base = task:get_ev_base() }
end

-- is_address says whether text is an address that the node accepts.
local function is_address(text)
  return text and #text <= max_address and text:find('^%S+@%S+$')
end

-- source returns what rspamd has verified of a message: client, sender, dkim.
local function source(task)
  local s = {}
  local ip = task:get_from_ip()
  if ip and ip:is_valid() then
    s.client = ip:to_string()
  end
  local from = task:get_from('smtp')
  if task:has_symbol('R_SPF_ALLOW') and from and from[1] and is_address(from[1].addr) then
    s.sender = from[1].addr
  end
  for _, symbol in ipairs(task:get_symbol('R_DKIM_ALLOW') or {}) do
    for _, option in ipairs(symbol.options or {}) do
      -- "example.com:s=selector"
      local domain = option:match('^([%w._-]+)')
      if domain and #(s.dkim or {}) < 16 then
        s.dkim = s.dkim or {}
        table.insert(s.dkim, domain)
      end
    end
  end
  return s
end

-- recipients returns the mailboxes that a message is for. An edge of a site with several nodes asks the node of the first.
local function recipients(task)
  local all = {}
  for _, r in ipairs(task:get_recipients('smtp') or {}) do
    if is_address(r.addr) and #all < max_recipients then
      table.insert(all, r.addr)
    end
  end
  return all
end

local function query_of(s, mailbox)
  local parts = mailbox and { 'mailbox=' .. escape(mailbox) } or {}
  for _, name in ipairs({ 'client', 'sender' }) do
    if s[name] then
      table.insert(parts, name .. '=' .. escape(s[name]))
    end
  end
  for _, domain in ipairs(s.dkim or {}) do
    table.insert(parts, 'dkim=' .. escape(domain))
  end
  return #parts > 0 and '?' .. table.concat(parts, '&') or ''
end

local function has_any(task, names)
  for _, name in ipairs(names) do
    if task:has_symbol(name) then
      return true
    end
  end
  return false
end

-- nobody_answers says that a message has no verified sender, although both could be asked.
local function nobody_answers(task, from)
  return from.client and not from.sender and not from.dkim
    and has_any(task, { 'R_SPF_NA', 'R_SPF_FAIL', 'R_SPF_SOFTFAIL', 'R_SPF_NEUTRAL', 'R_SPF_PERMFAIL' })
    and has_any(task, { 'R_DKIM_NA', 'R_DKIM_REJECT', 'R_DKIM_PERMFAIL' })
end

-- nearly_reported says that a message is suspected because nearly the same text was reported,
-- was hardly delivered without complaint, and neither its network nor its links had mail before that speaks for it.
local function nearly_reported(answer)
  local votes = math.max(1, tonumber(answer.spam_votes) or 0)
  if answer.class ~= 'suspected' or answer.rule == 'known-network' or answer.rule == 'usual-text'
    or (tonumber(answer.confidence) or 0) < least_confidence
    or (tonumber(answer.sightings) or 0) > most_sightings * votes then
    return false
  end
  for _, f in ipairs(type(answer.findings) == 'table' and answer.findings or {}) do
    if type(f) == 'table' and f.judged == 'spam' and type(f.signature) == 'string' and f.signature:find('^bulkhead/near:') then
      return true
    end
  end
  return false
end

-- signatures returns those that an answer has found something about, or not.
local function signatures(answer)
  local all = {}
  for _, f in ipairs(type(answer.findings) == 'table' and answer.findings or {}) do
    if type(f) == 'table' and type(f.signature) == 'string' then
      table.insert(all, f.signature)
    end
  end
  return all
end

local scanned = N .. '_scanned' -- set for a mail that is scanned, and not learnt by somebody

local function check(task)
  task:cache_set(scanned, true)
  local size = task:get_size()
  -- Mail of the site's own users is neither judged nor counted.
  if task:get_user() or size == 0 or size > settings.max_size then
    return
  end
  local from = source(task)
  local ok = post({ task = task }, '/v1/check' .. query_of(from, recipients(task)[1]), 'message/rfc822', task:get_content(), function(answer, why)
    local class = answer and answer.class
    if not answer or type(class) ~= 'string' then
      rspamd_logger.warnx(task, '%s: no verdict: %s', N, why or 'no class')
      task:insert_result('BULKHEAD_FAIL', 0.0, one_line(why or 'no class'))
      return
    end
    local reason = type(answer.reasons) == 'table' and answer.reasons[1]
    local confidence = tonumber(answer.confidence) or 0
    if symbols[class] then
      local weight = 1.0
      if class == 'spam' then
        weight = math.min(1.0, math.max(0.0, confidence / settings.full_confidence))
      end
      task:insert_result(symbols[class][1], weight, one_line(type(reason) == 'string' and reason or class), 'confidence ' .. math.floor(confidence))
    end
    if nearly_reported(answer) and nobody_answers(task, from) then
      task:insert_result(unanswered[1], 1.0)
    end
    if settings.count then
      local all = signatures(answer)
      if #all > 0 then
        task:cache_set(N, { signatures = all, source = from })
      end
    end
  end)
  if not ok then
    task:insert_result('BULKHEAD_FAIL', 0.0, 'not asked')
  end
end

-- count tells the node that a message is delivered, after all is decided.
local function count(task)
  local known = task:cache_get(N)
  local action = task:get_metric_action('default')
  if not known or action == 'reject' or action == 'soft reject' or action == 'greylist' then
    return
  end
  local report = { signatures = known.signatures, vote = 'sighting', source = known.source, recipients = recipients(task) }
  if #report.recipients == 0 then
    report.recipients = nil
    local id = task:get_message_id()
    if id and #id <= 230 and not id:find('[^\33-\126]') then
      report.id = id -- mail that comes again after a delay counts once
    end
  end
  if not next(report.source) then
    report.source = nil
  end
  post(beside(task), '/v1/report', 'application/json', ucl.to_format(report, 'json-compact'), function(_, why)
    if why then
      rspamd_logger.warnx(rspamd_config, '%s: a delivery is not counted: %s', N, why)
    end
  end)
end

local max_votes = 1000 -- that a worker keeps

local own -- the folder of this worker's votes that wait

-- keep puts a vote into a folder, from which "bulkhead waiting --send" takes it. The first line is
-- JSON, the rest is the message. It returns nil, or why the vote is lost.
local function keep(head, text)
  if settings.waiting == '' or not rspamd_util.file_exists(settings.waiting) then
    return 'no folder ' .. settings.waiting
  end
  local now = rspamd_util.get_time()
  local before = rspamd_util.umask('077')
  local function put()
    if not own or not rspamd_util.file_exists(own) then
      local folder = settings.waiting .. '/rspamd-' .. rspamd_util.random_hex(16)
      local ok, why = rspamd_util.mkdir(folder)
      if not ok then
        return tostring(why)
      end
      own = folder
    end
    if #rspamd_util.glob(own .. '/*.vote') >= max_votes then
      return 'too many votes wait'
    end
    head.id = 'rspamd-' .. rspamd_util.random_hex(24)
    head.time = os.date('!%Y-%m-%dT%H:%M:%SZ', math.floor(now))
    head.server = settings.server
    local name = string.format('%s/%010d%09d-%s', own, math.floor(now), math.floor((now % 1) * 1e9), rspamd_util.random_hex(16))
    local f, why = io.open(name .. '.tmp', 'wb')
    if not f then
      return why
    end
    local ok
    ok, why = f:write(ucl.to_format(head, 'json-compact'), '\n', text)
    local closed, why_not = f:close()
    if not ok or not closed then
      os.remove(name .. '.tmp')
      return tostring(why or why_not)
    end
    ok, why = os.rename(name .. '.tmp', name .. '.vote')
    return not ok and why or nil
  end
  local ok, why = pcall(put)
  rspamd_util.umask(before)
  return not ok and tostring(why) or ok and why or nil
end

-- learn votes on a message that rspamc learns, and says whether the classifier may. What
-- rspamd learns by itself, while it scans, nobody has voted on.
local function learn(task, is_spam, is_unlearn)
  if not is_unlearn and not task:cache_get(scanned) and task:get_size() > 0 and task:get_size() <= settings.max_size then
    local query = '?vote=' .. (is_spam and 'spam' or 'ham')
    local user = task:get_user() or task:get_principal_recipient()
    if settings.user and user then
      query = query .. '&user=' .. escape(user)
    end
    local head = { vote = is_spam and 'spam' or 'ham', user = settings.user and user or nil }
    local text = tostring(task:get_content()) -- the request outlives the task
    local function failed(why, passes)
      local lost = 'it is wrong'
      if passes then
        lost = settings.token and 'it would need the token' or keep(head, text)
      end
      rspamd_logger.warnx(rspamd_config, '%s: a vote is not taken: %s; %s', N, why, lost and 'it is lost: ' .. lost or 'it waits')
    end
    local sent = post(beside(task), '/v1/report' .. query, 'message/rfc822', text, function(_, why, passes)
      if why then
        failed(why, passes)
      end
    end)
    if not sent then
      failed('not asked', true)
    end
  end
  return lua_bayes_learn.can_learn(task, is_spam, is_unlearn)
end

rspamd_plugins = rspamd_plugins or {}
rspamd_plugins[N] = { learn = learn }

local id = rspamd_config:register_symbol({
  name = 'BULKHEAD_CHECK',
  type = 'callback',
  callback = check,
  flags = 'empty,nostat',
  group = N,
})
local function register(s)
  rspamd_config:register_symbol({ name = s[1], type = 'virtual', parent = id, score = s[2], group = N, description = 'bulkhead: ' .. s[3] })
end
for _, s in pairs(symbols) do
  register(s)
end
register(unanswered)
register({ 'BULKHEAD_FAIL', 0.0, 'the node gave no verdict' })
-- What is verified is wanted first. Without these modules there is nothing to wait for.
rspamd_config:register_dependency('BULKHEAD_CHECK', 'SPF_CHECK')
rspamd_config:register_dependency('BULKHEAD_CHECK', 'DKIM_CHECK')
if settings.count then
  rspamd_config:register_symbol({ name = 'BULKHEAD_COUNT', type = 'idempotent', callback = count, flags = 'empty,nostat,explicit_disable', group = N })
end
