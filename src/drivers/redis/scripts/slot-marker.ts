/**
 * The part of the scripts that tells, in a Cluster, until when nothing may be granted because the node may have forgotten locks.
 *
 * No key of a Cluster can speak for all slots, and a client does not know which node its request reaches. So every slot in use has a
 * marker of its own, and the script compares it with the node on which it runs, at every acquire: nobody has to meet a node before.
 *
 * The marker is `<barred until> <life> <since> <longest ttl>`. The life identifies the node's process and, if it was promoted, its replication history,
 * as in `server-marker.ts`. It says that this node, in this life, has lost nothing of this slot since it was written. `since` is the last time
 * at which the node, in this life, may have lost anything.
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
 * Redis gives up the history of a promotion after `repl-backlog-ttl` (an hour) without replicas; what was lost in it has expired by then.
 */
import { slotTagIn } from '../keys.js'

/** Nothing vouches for this life of the node yet: when may it have lost anything? */
const decide = `${slotTagIn}
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
  for _, name in ipairs({ 'flushall', 'flushdb', 'swapdb', 'debug', 'config|resetstat' }) do
    if clean and string.find(stats, 'cmdstat_' .. name .. ':', 1, true) then clean = false end
  end
  local stays, first, last
  if marker == '' or not clean then stays, first, last = ownSlots() end
  local witnesses = first and { first, last } or {}
  if clean then
    since = wall - (tonumber(string.match(after('uptime_in_seconds', 20), '^%d+')) or 0) * 1000000
  else
    since = wall
    for _, one in ipairs(witnesses) do
      local same, _, from = parse(read(markerOf(one)))
      if same then since = math.min(since, from) end
    end
  end
  for _, one in ipairs(witnesses) do
    local key = markerOf(one)
    local text = read(key)
    local same, standing, _, longest = parse(text)
    if one ~= slot and not same and (text ~= '' or stays(one)) then
      mark(key, bounded(math.max(standing, since + longest + 1000000), longest), since, longest)
    end
  end
  standing = bounded(math.max(standing, since + longest + 1000000), longest)
  -- Where CLUSTER NODES is not allowed, a request for all keys of a lock shows that they are here.
  local here = marker ~= '' or KEYS[2] ~= nil
  if stays and marker == '' then here = stays(slot) end
  return here and mark(clear, standing, since, longest) or standing`

/** In Lua: ARGV[1] is the full name of the marker, ARGV[5] `<slot> <longest ttl in µs>`. */
export const slotMarker: string = `
slotBar = function(decides)
  local slot, most = string.match(ARGV[5], '^(%d+) (%d+)$')
  local info = redis.pcall('INFO', 'server', 'replication')
  if type(info) ~= 'string' then return 0 end
  local function after(name, length)
    local _, at = string.find(info, '\\n' .. name .. ':', 1, true)
    return at and string.sub(info, at + 1, at + length) or ''
  end
  local life, promoted = after('run_id', 16), string.find(after('master_replid2', 40), '[1-9a-f]') ~= nil
  if life == '' then return 0 end
  if promoted then life = life .. after('master_replid', 8) end
  local marker = redis.pcall('GET', clear)
  if type(marker) ~= 'string' then marker = '' end
  -- One that was promoted may have given up that history: the same life, as far as both tell.
  if string.find(marker, '0 ' .. life, 1, true) == 1 then return 0 end

  local function parse(text)
    local till, writer, since, ttl = string.match(text, '^(%d+) (%S+) (%d+) (%d+)$')
    local same = writer and (writer == life or not promoted and string.sub(writer, 1, #life) == life)
    local longest = math.max(tonumber(most), tonumber(ttl or 0))
    local standing = till and tonumber(till) > wall and tonumber(till) + longest - ttl or 0
    return same, standing, tonumber(since or 0), longest
  end
  -- Never longer than it takes for all to run out, in case the clock has been set back.
  local function bounded(till, longest)
    till = math.min(till, wall + longest + 1000000)
    return till > wall and till or 0
  end
  local function mark(key, till, since, longest)
    redis.pcall('SET', key, string.format('%d %s %d %d', till, life, since, longest))
    return till
  end

  local same, standing, since, longest = parse(marker)
  if same then
    standing = bounded(standing, longest)
    if decides and standing == 0 then mark(clear, 0, since, longest) end
    return standing
  end
  if not decides then return wall + 1000000 end
${decide}
end
`
