/** What the facts of one Redis server mean for locks. */
import { formatDuration } from '../duration.js'
import type { RedisAddress } from '../redis-place.js'
import { bad, type Check, ok, unchecked, weak } from './check.js'
import { findMode, type NodeFacts } from './redis-ask.js'
import { maxTtlFor, quarantineChecks, quarantineOf } from './redis-quarantine.js'
import { rightsCheck } from './redis-rights.js'

type Info = ReadonlyMap<string, string>

export function nodeChecks(facts: NodeFacts, address: RedisAddress): Check[] {
  const { info } = facts
  if (info === undefined) {
    const means =
      quarantineOf(address) === 'off'
        ? 'after a restart that forgets locks, a second process may hold one at once'
        : 'no lock can be taken: nothing else shows whether the server has forgotten locks'
    return [
      bad('INFO', 'this account may not run INFO', means, 'ACL SETUSER <user> +info'),
      ...database(facts, address),
      rightsCheck(facts.denied),
    ]
  }
  return [
    version(info),
    ...mode(info, address),
    ...database(facts, address),
    eviction(info),
    ...persistence(facts, info, address),
    ...replicas(facts, info, address),
    rightsCheck(facts.denied),
  ]
}

function version(info: Info): Check {
  const reply = info.get('valkey_version') ?? info.get('redis_version') ?? 'unknown'
  const found = `${info.has('valkey_version') ? 'Valkey' : 'Redis'} ${reply}`
  if (Number.parseInt(reply, 10) < 7)
    return bad('version', found, 'the scripts of the driver do not run', 'Redis 7 or newer, or Valkey')
  return ok('version', found)
}

function mode(info: Info, { is }: RedisAddress): Check[] {
  if (findMode(info) !== 'cluster' || is === 'cluster') return []
  const means = 'locks in the slots of other nodes fail'
  return [bad('cluster', 'this is a node of a Cluster', means, 'redis+cluster: instead of redis: in the URL')]
}

function database({ refusedDatabase, config }: NodeFacts, { database }: RedisAddress): Check[] {
  if (refusedDatabase === undefined) return []
  const found = `the server refused database ${database} (${refusedDatabase})`
  const last = Number(config.get('databases') ?? 16) - 1
  const remedy = `another number at the end of the URL: 0 to ${last}, or only 0 in a Cluster; or a higher \`databases\` in redis.conf`
  return [bad('database', found, 'no lock can be taken', remedy)]
}

function eviction(info: Info): Check {
  const policy = info.get('maxmemory_policy') ?? 'unknown'
  const [what, found] = ['eviction', `maxmemory-policy ${policy}`]
  const remedy = 'maxmemory-policy noeviction (or a volatile-* policy)'
  if (!policy.startsWith('allkeys')) return ok(what, found)
  if ((info.get('maxmemory') ?? '0') !== '0')
    return bad(what, found, 'when memory is short the server may drop a lock that is held', remedy)
  return weak(
    what,
    `${found}, no maxmemory is set at present`,
    'safe until somebody sets maxmemory; then the server may drop a lock that is held',
    remedy,
  )
}

function persistence(facts: NodeFacts, info: Info, address: RedisAddress): Check[] {
  const { options, is } = address
  const quarantine = quarantineOf(address)
  const { found, keepsAll, remedy } = kept(facts, info)
  const what = 'persistence'
  const pause = formatDuration(maxTtlFor(address))
  const safe =
    is === 'redlock'
      ? `safe; after a restart this server gives no vote for ${pause}`
      : `safe; free locks are refused for ${pause} after a restart`
  const kind =
    is === 'cluster' && quarantine === 'strict'
      ? `; free locks are refused for ${pause} after it all the same`
      : ''
  const check = keepsAll
    ? ok(what, found, `a restart forgets nothing${kind}`)
    : weak(what, found, safe, remedy)
  const now = quarantineChecks(facts, info, address, keepsAll)
  if (keepsAll || quarantine === 'strict') return [check, ...now]
  const means =
    quarantine === 'off'
      ? 'after a restart that forgets locks, a second process may hold one at once'
      : 'a process that first connects after a restart that forgets locks may take one that another holds'
  return [
    { ...check, means },
    bad('quarantine', `quarantine=${options.quarantine} in the URL`, means, 'leave it out: strict'),
    ...now,
  ]
}

interface Persistence {
  readonly found: string
  readonly keepsAll: boolean
  readonly remedy: string
}

/** `appendfsync always` syncs before the reply, unless a rewrite of the file may pause it. */
function kept({ config }: NodeFacts, info: Info): Persistence {
  const sync = config.get('appendfsync')
  const always = 'appendonly yes, appendfsync always'
  if (info.get('aof_enabled') !== '1') {
    const save = config.get('save')
    const snapshots =
      save === undefined ? '' : save === '' ? ', no snapshots (save "")' : `, snapshots (save ${save})`
    return { found: `appendonly no${snapshots}`, keepsAll: false, remedy: always }
  }
  if (sync === undefined) {
    const found = 'appendonly yes; this account may not read appendfsync'
    return { found, keepsAll: false, remedy: `ACL SETUSER <user> +config|get, and ${always}` }
  }
  const paused = sync === 'always' && config.get('no-appendfsync-on-rewrite') === 'yes'
  const found = `appendonly yes, appendfsync ${sync}${paused ? ', no-appendfsync-on-rewrite yes' : ''}`
  return {
    found,
    keepsAll: sync === 'always' && !paused,
    remedy: paused ? 'no-appendfsync-on-rewrite no' : 'appendfsync always',
  }
}

function replicas({ config }: NodeFacts, info: Info, address: RedisAddress): Check[] {
  const { is, options } = address
  const connected = Number(info.get('connected_slaves') ?? 0)
  const waited = options.replicas ?? 0
  const what = 'replicas'
  if (info.get('role') === 'slave')
    return [
      bad(
        what,
        'this server is a replica',
        'it cannot grant locks',
        'name the master, or use redis+sentinel:',
      ),
    ]
  if (is === 'redlock') {
    if (connected === 0) return [ok(what, 'none, as Redlock requires')]
    const means = 'a replica that takes over has another memory of votes: two processes can hold one lock'
    return [weak(what, `${connected} connected`, means, 'no replicas behind redlock:')]
  }
  if (waited > connected) {
    const found = `${connected} connected, and replicas=${waited} in the URL`
    const means = `no lock can be taken: a grant counts only once it has reached ${waited}`
    return [bad(what, found, means, 'more replicas, or a smaller replicas= in the URL')]
  }
  if (connected === 0 && is !== 'sentinel') return [ok(what, 'none, so no fail-over can lose a lock')]
  if (connected === 0) {
    const means = 'safe; no locks while the master is down: the Sentinels have nothing to put in its place'
    return [weak(what, 'none', means, 'a replica, and ?replicas=1 in the URL')]
  }
  return [grants(connected, waited, address), oldMasters(config), ...forgottenPromotions(config, address)]
}

/** Without replicas a server gives up after this time that it was promoted. */
function forgottenPromotions(config: ReadonlyMap<string, string>, address: RedisAddress): Check[] {
  const seconds = Number(config.get('repl-backlog-ttl') ?? 0)
  if (seconds === 0 || seconds * 1_000 >= maxTtlFor(address) || quarantineOf(address) === 'off') return []
  const means =
    'a promotion may be forgotten before the locks it lost have run out: two processes can hold one'
  return [bad('promotions', `repl-backlog-ttl ${seconds}`, means, 'repl-backlog-ttl 3600')]
}

function grants(connected: number, waited: number, address: RedisAddress): Check {
  const what = 'replicas'
  if (waited > 0) return ok(what, `${connected} connected, grants wait for ${waited}`)
  const found = `${connected} connected, grants do not wait for them`
  const remedy = '?replicas=1 in the URL'
  if (quarantineOf(address) === 'off') {
    const means = 'a fail-over can lose a lock unnoticed: two processes can hold it until its ttl is over'
    return weak(what, found, means, remedy)
  }
  return weak(
    what,
    found,
    'safe; after a fail-over free locks are refused until what it may have lost has run out',
    remedy,
  )
}

function oldMasters(config: ReadonlyMap<string, string>): Check {
  const what = 'old masters'
  const least = config.get('min-replicas-to-write')
  if (least === undefined) return unchecked(what, 'this account may not read min-replicas-to-write')
  const found = `min-replicas-to-write ${least}`
  if (Number(least) > 0) return ok(what, found)
  const means = 'a master that is cut off goes on granting locks beside the one that was promoted'
  return weak(what, found, means, 'min-replicas-to-write 1')
}
