/**
 * Consul: version, servers, leader, the least ttl of sessions, whether anything is kept, access, encryption, clock. Asks the agents that the
 * URL names; the one thing it makes is a session, which it takes back.
 */
import { readFile } from 'node:fs/promises'
import { type ConsulPlace, consulPlace, consulToken } from '../connect-consul.js'
import { type Answer, ask, dateOf } from './ask-http.js'
import type { Check } from './setup.js'
import { clockCheck } from './setup-clock.js'
import { accessCheck, answersCheck, encryptionCheck, quorumCheck, versionCheck } from './setup-quorum.js'

interface Self {
  readonly Config?: { readonly Version?: string; readonly Server?: boolean; readonly Datacenter?: string }
  readonly DebugConfig?: { readonly DevMode?: boolean }
}

/** Asks the first agent that answered. */
type Get = (path: string, how?: { readonly token?: false; readonly put?: object }) => Promise<Answer>

export async function consulSetup(url: string, shown: string): Promise<Check[]> {
  const place = consulPlace(url.slice(url.indexOf(':') + 1), shown)
  const { hosts, secure } = place
  const token = consulToken(place)
  const ca = place.ca === undefined ? undefined : await readFile(place.ca)
  const from =
    (host: string): Get =>
    (path, { token: own, put } = {}) =>
      ask(`${secure ? 'https' : 'http'}://${host}${path}`, {
        method: put === undefined ? 'GET' : 'PUT',
        ca,
        ...(put !== undefined && { body: JSON.stringify(put) }),
        ...(token !== undefined && own !== false && { headers: { 'x-consul-token': token } }),
      })
  const asked = await Promise.all(
    hosts.map(async (host) => from(host)('/v1/status/leader').catch(() => host)),
  )
  const silent = asked.filter((one) => typeof one === 'string')
  const at = asked.findIndex((one) => typeof one !== 'string')
  const leader = asked[at]
  const host = hosts[at]
  if (host === undefined || leader === undefined || typeof leader === 'string')
    throw new Error(`no agent answers: ${silent.join(', ')}`)
  const get = from(host)
  const self = await jsonOf<Self>(get('/v1/agent/self'))
  const peers = await jsonOf<readonly string[]>(get('/v1/status/peers'))
  const now = dateOf(leader)
  const version = self?.Config?.Version
  return [
    versionCheck('Consul', version === undefined ? [] : [version], '1.8'),
    peers === undefined
      ? { what: 'servers', verdict: 'not checked', found: 'the agent does not tell' }
      : quorumCheck(peers.length),
    // An agent of the same machine is enough: it knows all servers.
    answersCheck(hosts, silent, 1),
    leaderCheck(leader),
    kept(self),
    await leastTtl(get, place),
    accessCheck(await isOpen(get, place), 'ACLs, with a token for these locks'),
    encryptionCheck(secure, token !== undefined),
    ...(now === undefined ? [] : [clockCheck(now, leader.middle)]),
  ]
}

async function jsonOf<T>(answer: Promise<Answer>): Promise<T | undefined> {
  const { status, text } = await answer
  return status === 200 ? (JSON.parse(text) as T) : undefined
}

function leaderCheck({ status, text }: Answer): Check {
  const what = 'leader'
  if (status === 200 && text.trim() !== '""') return { what, verdict: 'ok', found: `${JSON.parse(text)}` }
  return { what, verdict: 'bad', found: 'none', remedy: 'a majority of the servers must be up' }
}

function kept(self: Self | undefined): Check {
  const what = 'persistence'
  if (self === undefined)
    return { what, verdict: 'not checked', found: 'to see that, the token needs agent:read' }
  if (self.DebugConfig?.DevMode === true) {
    const found = 'development mode: a restart forgets every lock, and tokens begin anew'
    return { what, verdict: 'bad', found, remedy: 'start it without -dev, with -data-dir' }
  }
  if (self.Config?.Server !== true)
    return { what, verdict: 'ok', found: 'it is that of the servers; this agent is a client of them' }
  return { what, verdict: 'ok', found: 'the servers write to disk what they decide' }
}

/** Whether the servers take sessions as short as the driver is told to ask for. */
async function leastTtl(get: Get, { minTtl = 10_000, datacenter }: ConsulPlace): Promise<Check> {
  const what = 'session_ttl_min'
  const query = datacenter === undefined ? '' : `?dc=${encodeURIComponent(datacenter)}`
  const body = { TTL: `${minTtl}ms`, Behavior: 'delete', LockDelay: '0s', NodeChecks: [], Checks: [] }
  const { status, text } = await get(`/v1/session/create${query}`, { put: body })
  if (status === 200) {
    const { ID } = JSON.parse(text) as { ID: string }
    await get(`/v1/session/destroy/${ID}${query}`, { put: {} })
    return { what, verdict: 'ok', found: `sessions of ${minTtl} ms are taken` }
  }
  const least = /between \[(\S+?)=/.exec(text)?.[1]
  if (least === undefined) {
    const found = `a session was refused: ${text.trim().slice(0, 100)}`
    return { what, verdict: 'bad', found, remedy: 'session:write for the node of the agent' }
  }
  const found = `sessions of ${minTtl} ms are refused, the least is ${least}`
  return { what, verdict: 'bad', found, remedy: `min-ttl=${least} in the URL, or a shorter session_ttl_min` }
}

/** May one without a token see the locks? */
async function isOpen(get: Get, { prefix = 'holdfast/' }: ConsulPlace): Promise<boolean | undefined> {
  const path = prefix.split('/').map(encodeURIComponent).join('/')
  // One key: a list is only made shorter for those who may not see it.
  const { status } = await get(`/v1/kv/${path}-`, { token: false })
  if (status === 403 || status === 401) return false
  return status === 200 || status === 404 ? true : undefined
}
