-- The globals of scripts. Every table that scripts share is an empty one in front of the real one, which only reads.
local native, libraries = ...
local error, pcall, xpcall, type, tostring = error, pcall, xpcall, type, tostring
local pairs, next, rawget, rawset, setmetatable = pairs, next, rawget, rawset, setmetatable
local loadstring, load, collectgarbage, byte, concat = loadstring, load, collectgarbage, string.byte, table.concat
local create, resume = coroutine.create, coroutine.resume
local find, sub, gsub = string.find, string.sub, string.gsub
local caught, locate = native.caught, native.locate
local READ_ONLY = "Attempt to modify a readonly table"

-- The real table behind each one that scripts see.
local behind = {}

local function refuse()
  error(READ_ONLY, 2)
end

local function protect(real, meta)
  local front = {}
  meta.__index, meta.__newindex = meta.__index or real, refuse
  meta.__metatable = meta.__metatable or false
  behind[front] = real
  return setmetatable(front, meta)
end

local function copy(real)
  local all = {}
  for key, value in pairs(real) do
    all[key] = value
  end
  return all
end

local function globals(name)
  return libraries[name] or _G[name]
end

local real = {}
for _, name in ipairs { "string", "math", "table", "redis", "cjson", "cmsgpack", "bit", "struct" } do
  real[name] = protect(globals(name), {})
end
for _, name in ipairs { "assert", "error", "gcinfo", "getmetatable", "ipairs", "rawequal", "select", "tonumber",
  "tostring", "type", "unpack", "_VERSION" } do
  real[name] = _G[name]
end
math.random, math.randomseed = native.random, native.randomseed

-- Methods of strings must not be replaced either.
getmetatable("").__metatable = protect({ __index = real.string }, {})

-- Errors of functions of ours are no Lua values; scripts get what Redis gives them.
local function results(is_ok, ...)
  if is_ok then
    return is_ok, ...
  end
  local first = caught((...))
  if type(first) == "table" then
    local text = first.err
    if type(text) == "string" or type(text) == "number" then
      first = text
    end
  end
  return false, first
end

function real.pcall(...)
  return results(pcall(...))
end

function real.xpcall(call, handler)
  if type(handler) ~= "function" then
    return xpcall(call, handler)
  end
  return xpcall(call, function(err) return handler(caught(err)) end)
end

local function resumed(is_ok, ...)
  if is_ok then
    return is_ok, ...
  end
  return false, (caught((...)))
end

local coroutines = copy(coroutine)
function coroutines.resume(...)
  return resumed(resume(...))
end
function coroutines.wrap(call)
  local thread = create(call)
  local function values(is_ok, ...)
    if is_ok then
      return ...
    end
    error((...), type((...)) == "string" and 3 or 0)
  end
  return function(...) return values(resume(thread, ...)) end
end
real.coroutine = protect(coroutines, {})

-- Code comes as text alone: bytecode can do anything.
local function load_text(text, name)
  if type(text) == "string" and byte(text, 1) == 27 then
    return nil, "attempt to load a binary chunk"
  end
  return loadstring(text, name)
end
real.loadstring = load_text
function real.load(read, name)
  if type(read) ~= "function" then
    return load(read, name)
  end
  local pieces = {}
  while true do
    local piece = read()
    if piece == nil or piece == "" then
      return load_text(concat(pieces), name or "=(load)")
    elseif type(piece) ~= "string" then
      error("reader function must return a string")
    end
    pieces[#pieces + 1] = piece
  end
end

-- What one script sets must not outlive it.
function real.collectgarbage(what, value)
  if what == nil or what == "collect" or what == "count" or what == "step" then
    return collectgarbage(what or "collect", value)
  end
  return 0
end

-- The machine's own functions need stack for every item of a pattern.
local PATTERN_MAX = 1000
for _, name in ipairs { "find", "match", "gmatch", "gfind", "gsub" } do
  local matching = string[name]
  string[name] = function(text, pattern, ...)
    if type(pattern) == "string" and #pattern > PATTERN_MAX then
      error("pattern too long (" .. PATTERN_MAX .. " bytes at most)", 2)
    end
    return matching(text, pattern, ...)
  end
end

-- An empty string is repeated in no time, however often.
local rep = string.rep
function string.rep(text, times)
  if text == "" then
    times = 0
  end
  return rep(text, times)
end

function real.rawset(t, key, value)
  if behind[t] then
    error(READ_ONLY, 0)
  end
  return rawset(t, key, value)
end
function real.setmetatable(t, meta)
  if behind[t] then
    error(READ_ONLY, 0)
  end
  return setmetatable(t, meta)
end
function real.rawget(t, key)
  return rawget(behind[t] or t, key)
end
function real.next(t, key)
  if behind[t] then
    t = copy(behind[t])
  end
  return next(t, key)
end
function real.pairs(t)
  if behind[t] then
    return next, copy(behind[t]), nil
  end
  return pairs(t)
end

-- The table of globals has no fields of its own: whatever is assigned is refused.
local env = protect(real, { __metatable = protect({}, {}) })
real._G = env
setmetatable(real, {
  __index = function(_, name)
    error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
  end,
})

-- Functions of this file do not show: an error in one is an error of its caller.
local function handle(err)
  err = caught(err)
  local source, line = locate()
  if type(err) == "string" and find(err, "^sandbox:%d+: ") then
    local where = source and line and sub(source, 2) .. ":" .. line .. ": " or ""
    err = where .. gsub(err, "^sandbox:%d+: ", "")
  end
  if type(err) ~= "table" then
    err = { err = "ERR " .. tostring(err) }
  end
  rawset(err, "source", source)
  rawset(err, "line", line)
  return err
end

return env, real, handle
