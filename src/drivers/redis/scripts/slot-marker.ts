/**
 * The part of the scripts that tells, in a Cluster, until when nothing may be granted because the node may have forgotten locks.
 *
 * No key of a Cluster can speak for all slots, and a client does not know which node its request reaches. So every slot in use has a
 * marker of its own, and the script compares it with the node on which it runs, at every acquire: nobody has to meet a node before.
 *
 * The marker is `<barred until> <life> <longest ttl> <since> <process>`. The life is the replication history of the node (`master_replid`):
 * each process begins a new one, and so does each promotion. The marker says that this node, in this life, has lost nothing of this slot
 * since it was written. A master also begins a new history when it gets its first replica, or has had none for `repl-backlog-ttl`. That
 * one continues no other (`master_replid2` is zero), and the process (`run_id`) is the same: it is the same life.
 * `since` is the last time at which the node, in this life, may have lost anything. In use it begins with what `slotBar` expects, and nothing
 * else has to be read.
 *
 * | marker of the slot | the node | lost |
 * |---|---|---|
 * | of this life | – | nothing |
 * | missing or of another life | was not promoted in this life, and nothing was deleted in it | when this life began |
 * | the same | was promoted, or something was deleted | when that was first noticed, in any slot of the node |
 *
 * A slot that moves brings its marker along: that of another life, which does not count, and the end of its quarantine, which does.
 * When a promotion or a deletion was first noticed is kept in the markers of the first and the last slot of the node, its witnesses. So one quarantine does
 * for all slots of a node, also for those in which nobody had a lock before.
 *
 * A marker must not be created while its slot is being moved: it could be on the other side, and two of one name would stop the move. Until it is
 * there, the node decides again at each request.
 *
 * Redis gives up the history of a promotion after `repl-backlog-ttl` (an hour) without replicas, and begins a new one; what was lost in it has
 * expired by then, and a marker from before the promotion counts again. Without INFO nothing of this is known, and nothing is granted.
 */
import { parseSlotTag } from '../keys.js'

/** Nothing vouches for this life of the node yet: when may it have lost anything? */
const decide = `${parseSlotTag}
  -- Does a slot belong to this node, and stay? The first and the last that do. Nothing where CLUSTER NODES is not allowed.
  local function ownSlots()
    local nodes = redis.pcall('CLUSTER', 'NODES')
    local own = type(nodes) == 'string' and string.match('\\n' .. nodes, '\\n%S+ %S+ myself%S* %S+ %S+ %S+ %S+ %S+ ?([^\\r\\n]*)')
    if not own then return end
    local ranges = string.gsub(own, '%[[^%]]*%]', '')
    local first, last
    local function stays(slot)
      if string.find(own, '[' .. slot .. '-', 1, true) then return false end
      for from, to in string.gmatch(ranges, '(%d+)%-?(%d*)') do
        if tonumber(slot) >= tonumber(from) and tonumber(slot) <= tonumber(to ~= '' and to or from) then return true end
      end
      return false
    end
    for from, to in string.gmatch(ranges, '(%d+)%-?(%d*)') do
      first, last = first or from, to ~= '' and to or from
    end
    return stays, first, last
  end
  local function read(key)
    local text = redis.pcall('GET', key)
    return type(text) == 'string' and text or ''
  end
  local stats = redis.pcall('INFO', 'commandstats')
  local clean = not promoted and type(stats) == 'string' and string.find(stats, 'cmdstat_', 1, true) ~= nil
  -- One that was refused is counted, too, but not as a call.
  for _, name in ipairs({ 'flushall', 'flushdb', 'swapdb', 'debug', 'config|resetstat' }) do
    if clean and string.find(stats, 'cmdstat_' .. name .. ':calls=[1-9]') then clean = false end
  end
  since = wall
  if clean then
    -- Negative: the clock has been set back.
    local up = string.match(tostring(redis.pcall('INFO', 'server')), '\\nuptime_in_seconds:(%d+)')
    since = wall - (tonumber(up) or 0) * 1000000
  end
  local stays, first, last = ownSlots()
  local witnesses = first and { first, last } or {}
  for _, one in ipairs(witnesses) do
    local same, _, from, ttl = parse(read(markerOf(one)))
    if same then since = math.min(since, from) end
    longest = math.max(longest, ttl)
  end
  for _, one in ipairs(witnesses) do
    local key = markerOf(one)
    local text = read(key)
    local same, standing, from = parse(text)
    -- One from before the clock was set back says nothing.
    if one ~= slot and (not same or from > wall) and (text ~= '' or stays(one)) then
      mark(key, bounded(math.max(standing, since + longest + 1000000)), since)
    end
  end
  standing = bounded(math.max(standing, since + longest + 1000000))
  -- Where CLUSTER NODES is not allowed, a request for all keys of a lock shows that they are here.
  local here = marker ~= '' or KEYS[2] ~= nil
  if stays and marker == '' then here = stays(slot) end
  return here and mark(clear, standing, since) or standing`

/** In Lua: ARGV[1] is the full name of the marker, ARGV[5] begins with `<slot> <longest ttl in µs>`. */
export const slotMarker: string = `
slotBar = function(decides)
  local info = redis.pcall('INFO', 'replication')
  local _, at = string.find(type(info) == 'string' and info or '', '\\nmaster_replid:', 1, true)
  if not at then
    -- A release still frees the lock, but hands it to nobody.
    if not decides then return wall + 1000000 end
    error({ err = 'NOINFO this account may not run INFO' })
  end
  local life = string.sub(info, at + 1, at + 16)
  local slot, most = string.match(ARGV[5], '^(%d+) (%d+)')
  local marker = redis.pcall('GET', clear)
  if type(marker) ~= 'string' then marker = '' end
  if string.find(marker, '0 ' .. life .. ' ' .. most .. ' ', 1, true) == 1 then return 0 end

  local longest = tonumber(most)
  local promoted = string.find(info, '\\nmaster_replid2:0*[1-9a-f]') ~= nil
  local process
  local function run()
    process = process or string.match(tostring(redis.pcall('INFO', 'server')), '\\nrun_id:(%x+)') or '-'
    return process
  end
  local function parse(text)
    local till, writer, ttl, since, runs = string.match(text, '^(%d+) (%S+) (%d+) (%d+) ?(%S*)$')
    if not till then return false, 0, 0, 0 end
    till, ttl = tonumber(till), tonumber(ttl)
    local own = writer == life or not promoted and #runs > 1 and runs == run()
    -- A client with a longer ttl may have holders that the quarantine did not account for.
    return own, till > wall and till + math.max(0, longest - ttl) or 0, tonumber(since), ttl
  end
  -- Never longer than it takes for all to run out, in case the clock has been set back.
  local function bounded(till)
    till = math.min(till, wall + longest + 1000000)
    return till > wall and till or 0
  end
  local function mark(key, till, since)
    local text = string.format('%d %s %d %d %s', till, life, longest, since, run())
    if key ~= clear or text ~= marker then redis.pcall('SET', key, text) end
    return till
  end

  local same, standing, since, ttl = parse(marker)
  longest = math.max(longest, ttl)
  if same then
    standing = bounded(standing)
    return decides and mark(clear, standing, since) or standing
  end
  if not decides then return wall + 1000000 end
${decide}
end
`
