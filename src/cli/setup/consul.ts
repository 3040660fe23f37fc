/**
 * Consul: version, servers, leader, minimum session ttl, whether anything is kept, access, encryption, clock. Queries the agents named in
 * the URL; creates only one session, and destroys it.
 */
import { type ConsulAddress, consulToken, parseConsulAddress } from '../connect-consul.js'
import { readKeys } from '../tls.js'
import { type Answer, ask, parseDate, recordSilence } from './ask-http.js'
import { bad, type Check, ok, unchecked } from './check.js'
import { clockCheck } from './clock.js'
import { encryptionCheck } from './encryption.js'
import { accessCheck, answersCheck, quorumCheck, versionCheck } from './quorum.js'

interface Self {
  readonly Config?: { readonly Version?: string; readonly Server?: boolean; readonly Datacenter?: string }
  readonly DebugConfig?: { readonly DevMode?: boolean }
}

/** Queries the first agent that answered. */
type Get = (path: string, how?: { readonly token?: false; readonly put?: object }) => Promise<Answer>

export async function consulSetup(url: string, shown: string): Promise<Check[]> {
  const address = parseConsulAddress(url.slice(url.indexOf(':') + 1), shown)
  const { hosts, tls } = address
  const token = consulToken(address)
  const keys = tls && readKeys(tls)
  const from =
    (host: string): Get =>
    (path, { token: own, put } = {}) =>
      ask(`${tls === undefined ? 'http' : 'https'}://${host}${path}`, {
        method: put === undefined ? 'GET' : 'PUT',
        keys,
        ...(put !== undefined && { body: JSON.stringify(put) }),
        ...(token !== undefined && own !== false && { headers: { 'x-consul-token': token } }),
      })
  const silence = recordSilence()
  const asked = await Promise.all(hosts.map((host) => askLeader(from(host)).catch(silence.of(host))))
  const silent = asked.filter((one) => typeof one === 'string')
  const at = asked.findIndex((one) => typeof one !== 'string')
  const leader = asked[at]
  const host = hosts[at]
  if (host === undefined || leader === undefined || typeof leader === 'string')
    throw new Error(`no agent answers: ${silence.text()}`)
  const get = from(host)
  const own = await get('/v1/agent/self')
  if (own.status === 403 && /ACL not found/i.test(own.text))
    throw new Error('the token was refused: ACL not found')
  const self = await readJson<Self>(own)
  const peers = await readJson<readonly string[]>(get('/v1/status/peers'))
  const now = parseDate(leader)
  const version = self?.Config?.Version
  return [
    versionCheck('Consul', version === undefined ? [] : [version], '1.8'),
    peers === undefined ? unchecked('servers', 'the agent does not report them') : quorumCheck(peers.length),
    // An agent on the same machine is enough: it knows all servers.
    answersCheck(hosts, silent, 1),
    leaderCheck(leader),
    kept(self),
    await minTtl(get, address),
    await rights(get, address),
    accessCheck(await isOpen(get, address), 'ACLs, with a token for these locks'),
    encryptionCheck({ hosts, secure: tls !== undefined, secret: token !== undefined }),
    ...(now === undefined ? [] : [clockCheck(now, leader.middle)]),
  ]
}

/** @throws Error if the server is not a Consul agent */
async function askLeader(get: Get): Promise<Answer> {
  const answer = await get('/v1/status/leader')
  // 500: it knows of no leader.
  const known = answer.status === 200 ? /^"[^"]*"$/.test(answer.text.trim()) : answer.status === 500
  if (!known) throw new Error(`an answer with the status ${answer.status}`)
  return answer
}

async function readJson<T>(answer: Answer | Promise<Answer>): Promise<T | undefined> {
  const { status, text } = await answer
  return status === 200 ? (JSON.parse(text) as T) : undefined
}

function leaderCheck({ status, text }: Answer): Check {
  const what = 'leader'
  if (status === 200 && text.trim() !== '""') return ok(what, `${JSON.parse(text)}`)
  return bad(what, 'none', 'no lock can be taken', 'start servers until a majority is up')
}

function kept(self: Self | undefined): Check {
  const what = 'persistence'
  if (self === undefined) return unchecked(what, 'to see that, the token needs agent:read')
  if (self.DebugConfig?.DevMode === true) {
    const means = 'a restart forgets every lock, and tokens begin anew: two processes can hold one'
    return bad(what, 'development mode', means, 'start it without -dev, with -data-dir')
  }
  if (self.Config?.Server !== true) return ok(what, 'that of the servers, of which this agent is a client')
  return ok(what, 'the servers write their decisions to disk')
}

/** Do the servers accept sessions as short as the driver's configured minimum? */
async function minTtl(get: Get, { minTtl = 10_000, datacenter }: ConsulAddress): Promise<Check> {
  const what = 'session_ttl_min'
  const query = datacenter === undefined ? '' : `?dc=${encodeURIComponent(datacenter)}`
  const body = { TTL: `${minTtl}ms`, Behavior: 'delete', LockDelay: '0s', NodeChecks: [], Checks: [] }
  const { status, text } = await get(`/v1/session/create${query}`, { put: body })
  if (status === 200) {
    const { ID } = JSON.parse(text) as { ID: string }
    await get(`/v1/session/destroy/${ID}${query}`, { put: {} })
    return ok(what, `sessions of ${minTtl} ms are accepted`)
  }
  const least = /between \[(\S+?)=/.exec(text)?.[1]
  if (least === undefined) {
    const found = `a session was refused: ${text.trim().slice(0, 100)}`
    return bad(what, found, 'no lock can be taken', 'session:write for the node of the agent')
  }
  const found = `sessions of ${minTtl} ms are refused, the least is ${least}`
  const remedy = `?min-ttl=${least} in the URL, or a shorter session_ttl_min`
  return bad(what, found, `locks with a ttl below ${least} fail`, remedy)
}

/** A write conditional on an index that no key has: the agent checks the rights and writes nothing. */
async function rights(get: Get, { prefix = 'holdfast/', datacenter }: ConsulAddress): Promise<Check> {
  const what = 'rights'
  const never = { Verb: 'cas', Key: `${prefix}-doctor`, Value: '', Index: 1 }
  const query = datacenter === undefined ? '' : `?dc=${encodeURIComponent(datacenter)}`
  const { status, text } = await get(`/v1/txn${query}`, { put: [{ KV: never }] })
  // 409: the comparison failed, as intended.
  if (status === 409 && !/Permission denied/i.test(text))
    return ok(what, `this token may write ${JSON.stringify(prefix)}`)
  const remedy = `key_prefix "${prefix}" { policy = "write" } for this token`
  return bad(
    what,
    `refused for ${JSON.stringify(prefix)}: ${text.trim().slice(0, 100)}`,
    'no lock can be taken',
    remedy,
  )
}

/** Can a client without a token read the locks? */
async function isOpen(get: Get, { prefix = 'holdfast/' }: ConsulAddress): Promise<boolean | undefined> {
  const path = prefix.split('/').map(encodeURIComponent).join('/')
  // A single key: for a client without rights, a list is merely shorter.
  const { status } = await get(`/v1/kv/${path}-`, { token: false })
  if (status === 403 || status === 401) return false
  return status === 200 || status === 404 ? true : undefined
}
