/** The Lua of the Redis guard. */

/**
 * Compares the token, stores it and runs commands, in one step.
 * KEYS[1] the fence; KEYS[2..] what the commands touch.
 * ARGV[1] token; ARGV[2] the name meant by KEYS[1], or '' when no word below is a key; after '' nothing, or a command
 * that acts on KEYS[2], without that key; otherwise for each command the number of its words, and the words.
 * Result: {1, reply, …} when the commands ran; {0, newest} when a newer token had been there, or what is not digits alone: nothing ran; {2,
 * KEYS[1]} when the client has changed the keys on the way, which it cannot do in the words: nothing ran.
 * Tokens are below 2^53, which Lua's numbers hold exactly; they are stored as the text in which they came. `tonumber` alone would read
 * 'inf', '0x10' and ' 7' as well.
 */
export const runFenced = `
if ARGV[2] ~= '' and ARGV[2] ~= KEYS[1] then return {2, KEYS[1]} end
local newest = redis.call('GET', KEYS[1])
local seen = tonumber(string.match(newest or '0', '^%d+$'))
if not seen or not (seen <= tonumber(ARGV[1])) then return {0, newest} end
if newest ~= ARGV[1] then redis.call('SET', KEYS[1], ARGV[1]) end
local replies, at = {1}, 3
if ARGV[2] == '' then
  if ARGV[3] then replies[2] = redis.call(ARGV[3], KEYS[2], unpack(ARGV, 4)) end
  return replies
end
while at <= #ARGV do
  local words = tonumber(ARGV[at])
  replies[#replies + 1] = redis.call(unpack(ARGV, at + 1, at + words))
  at = at + words + 1
end
return replies
`
