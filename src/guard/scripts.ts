/** The Lua of the Redis guard. */

/**
 * Compares the token, stores it and runs commands, in one step.
 * KEYS[1] the fence; KEYS[2..] what the commands touch, for the Cluster's sake.
 * ARGV[1] token; then for each command the number of its words, and the words.
 * Result: {1, reply, …} when it was run; {0, newest} when a newer token had been there: nothing was run.
 * Tokens are below 2^53, which Lua's numbers hold exactly; they are stored as the text they came as.
 */
export const runFenced = `
local newest = redis.call('GET', KEYS[1])
if newest and tonumber(newest) > tonumber(ARGV[1]) then return {0, newest} end
if newest ~= ARGV[1] then redis.call('SET', KEYS[1], ARGV[1]) end
local replies, at = {1}, 2
while at <= #ARGV do
  local words = tonumber(ARGV[at])
  replies[#replies + 1] = redis.call(unpack(ARGV, at + 1, at + words))
  at = at + words + 1
end
return replies
`
