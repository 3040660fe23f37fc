/** The script that a client runs when it first reaches a server: which server it is, and until when it may have forgotten locks. */
import type { Script } from './batch-script.js'

/**
 * The marker is `<barred until> <boot id> <lineage> <longest ttl> <1 = loses nothing>`, one per prefix and database. The boot id
 * identifies the life of the server in which the data were last known to be whole: the process and, if it was promoted, its
 * replication history, which is new at each promotion. The lineage is generated when a marker is created where there was none: it
 * identifies these data, and data that have lost it have lost everything else as well. Every client remembers the lineage that it has read,
 * so it recognises data that were deleted and created again by a client that knew nothing of the deletion. The lineage ends with two times: when it was
 * generated, and the latest time at which the data before it were lost.
 *
 * `lost` is the last time at which locks now missing may have existed:
 *
 * | marker | the client | lost |
 * |---|---|---|
 * | of this life | knows this lineage | nothing |
 * | of this life | knows no lineage | when the data before this lineage were lost, as the lineage says |
 * | of this life | knows another lineage | before this lineage began |
 * | of another life | – | when this life began; now, if it was promoted in it or may have been; nothing, if it loses nothing |
 * | missing | knows a lineage from this life | now: the time of the loss is unknown |
 * | missing | knows no lineage, or one from another life | when this life began if nothing was deleted in it; else now |
 * | `new`, set by an operator | knows no lineage | nothing |
 *
 * A promoted server says so in its replication history, and gives that up after `repl-backlog-ttl` (an hour) without replicas. That it had
 * a part in replication still shows in its offset, so from then on a server with an offset may have been promoted. Not noticed then: a
 * server without a marker, asked by a client that knows no lineage; and one that was the master before, with its own marker from that time.
 *
 * The server grants nothing before `lost` + the longest ttl known to be in use. This is one script, because INFO and the marker must
 * be read at the same moment.
 *
 * "Nothing was deleted in it" follows from the counters of FLUSHALL, FLUSHDB, SWAPDB and DEBUG, and of CONFIG RESETSTAT, which leaves
 * its own trace. "It loses nothing" requires an append-only file synced at every write, both in the life before (by its marker) and in
 * the present one, and no replica, now or earlier in this life, that could have taken its place.
 *
 * KEYS: the marker. ARGV: 1 the lineage that the client knows, `-` = none · 2 boot id of the life in which it met that lineage ·
 * 3 the longest ttl it knows of in µs · 4 prefix of a new lineage · 5 `1`: a missing marker counts also for a client that knows no
 * lineage · 6 is `appendfsync always` set? `1`, `0`, `?` = not asked yet. Result: `{ boot id, lineage, longest ttl in µs }` ·
 * `aof` check `appendfsync` first · `noinfo` INFO is not allowed.
 */
export const meet: Script = {
  name: 'meet',
  args: 0,
  text: `#!lua flags=allow-oom
local call = redis.call
local tm = call('TIME')
local wall = tm[1] * 1000000 + tm[2]
local info = redis.pcall('INFO', 'server', 'replication', 'persistence', 'commandstats')
local known, life, longest, strict, always = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[5] == '1', ARGV[6]
if type(info) ~= 'string' then return 'noinfo' end
local function num(n) return string.format('%d', n) end
local function field(name) return string.match(info, '\\n' .. name .. ':([^\\r\\n]*)') or '' end

-- Also where it takes writes: its master grants the same locks, and overwrites what it grants.
if field('role') == 'slave' then return { err = 'READONLY this is a replica' } end
local boot = string.sub(field('run_id'), 1, 16)
if boot == '' then return 'noinfo' end
-- In the future: the clock has been set back.
local began = math.min(wall, wall - (tonumber(field('uptime_in_seconds')) or 0) * 1000000)
-- A replication history before the present one: it was a replica once in this life.
local promoted = string.find(field('master_replid2'), '[1-9a-f]') ~= nil
-- One that was the master before has a marker of its own from then, if it has got nothing of what was granted in between.
if promoted then boot = boot .. string.sub(field('master_replid'), 1, 8) end
local whole = string.find(info, 'cmdstat_', 1, true) ~= nil
for _, name in ipairs({ 'flushall', 'flushdb', 'swapdb', 'debug', 'config|resetstat' }) do
  -- One that was refused is counted, too, but not as a call.
  if string.find(info, 'cmdstat_' .. name .. ':calls=[1-9]') then whole = false end
end
-- It has had a replica in this life, or was one itself and gave up that history after repl-backlog-ttl without replicas.
local replicated = (tonumber(field('master_repl_offset')) or 0) > 0
local synced = field('aof_enabled') == '1' and field('aof_last_write_status') == 'ok' and
  field('connected_slaves') == '0' and not replicated and not promoted

local marker = call('GET', KEYS[1])
local till, writer, lineage, ttl, sure = string.match(marker or '', '^(%d+) (%S+) (%S+) (%d+) (%d)$')
-- It was promoted, has been met since, and gave up that history: the same life.
if writer and not promoted and string.sub(writer, 1, #boot) == boot then boot = writer end
if synced and always == '?' and writer ~= boot then return 'aof' end
local most = math.max(longest, tonumber(ttl or 0))
local standing = till and tonumber(till) > wall and tonumber(till) or 0
-- A client with a longer ttl may have holders that the quarantine did not account for.
if standing > 0 then standing = standing + most - ttl end

local stranger = known ~= '-' and known ~= lineage
-- A replicated server may have been promoted unnoticed. Not asked where these data, or their absence, say nothing of another life.
local unnoticed = replicated and (stranger or writer) and not (stranger and writer == boot)
local start = (promoted or unnoticed) and wall or began
local lost
if not writer then
  if stranger then
    lost = life ~= boot and whole and start or wall
  elseif strict and marker ~= 'new' then
    lost = whole and start or wall
  end
elseif stranger then
  local drawn, gone = string.match(lineage, '%.(%d+)%.(%d+)$')
  lost = life == boot and tonumber(drawn or wall) or math.max(start, tonumber(gone or wall))
elseif writer ~= boot then
  if not (synced and always == '1' and sure == '1') then lost = start end
elseif life ~= boot and known ~= '-' and longest > tonumber(ttl) then
  lost = start
elseif known == '-' and strict then
  -- A client may have drawn it because it mistook the server for a new one.
  lost = tonumber(string.match(lineage, '%.(%d+)$'))
end
-- A lineage from before the clock was set back would bar every newcomer anew, until the clock is there again.
local again = lost and lost > wall
if again then lost = wall end
if lost then standing = math.max(standing, lost + most + 1000000) end
-- Never longer than it takes for all to run out, in case the clock has been set back.
standing = math.min(standing, wall + most + 1000000)
if standing <= wall then standing = 0 end

if not writer or again then
  lineage = ARGV[4] .. '.' .. num(wall) .. '.' .. num(again and wall or marker == 'new' and 0 or whole and start or wall)
end
local durable = '0'
if synced and (always == '1' or always == '?' and writer == boot and sure == '1') then durable = '1' end
local now = num(standing) .. ' ' .. boot .. ' ' .. lineage .. ' ' .. num(most) .. ' ' .. durable
if now ~= marker then call('SET', KEYS[1], now) end
return { boot, lineage, num(most) }
`,
}
