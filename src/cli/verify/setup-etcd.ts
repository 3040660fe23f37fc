/**
 * etcd: version, members, leader, alarms, room in the database, the least lease, access, encryption, clock. Asks the JSON gateway; the one
 * thing it makes is a lease, which it takes back.
 */
import { readFile } from 'node:fs/promises'
import { type EtcdPlace, etcdPlace } from '../connect-etcd.js'
import { type Answer, ask, dateOf } from './ask-http.js'
import type { Check } from './setup.js'
import { clockCheck } from './setup-clock.js'
import {
  accessCheck,
  answersCheck,
  encryptionCheck,
  leaderlessCheck,
  quorumCheck,
  versionCheck,
} from './setup-quorum.js'

interface Status {
  readonly host: string
  readonly version: string
  /** Of the member; '0' or absent: it knows none. */
  readonly leader: string
  readonly answer: Answer
}

type Post = (path: string, body: object, token?: string) => Promise<Answer>

export async function etcdSetup(url: string, shown: string): Promise<Check[]> {
  const place = etcdPlace(url.slice(url.indexOf(':') + 1), shown)
  const { hosts, secure, login } = place
  const ca = place.ca === undefined ? undefined : await readFile(place.ca)
  const at = (host: string) => `${secure ? 'https' : 'http'}://${host}`
  const postTo =
    (host: string): Post =>
    (path, body, token) =>
      ask(at(host) + path, {
        method: 'POST',
        body: JSON.stringify(body),
        ca,
        ...(token !== undefined && { headers: { authorization: token } }),
      })
  const asked = await Promise.all(hosts.map(async (host) => statusOf(host, postTo(host)).catch(() => host)))
  const statuses = asked.filter((one): one is Status => typeof one !== 'string')
  const silent = asked.filter((one) => typeof one === 'string')
  const [first] = statuses
  if (first === undefined) throw new Error(`no member answers: ${silent.join(', ')}`)
  const post = postTo(first.host)
  const token = login === undefined ? undefined : await tokenOf(post, login)
  const voters = await votersOf(post, token)
  const metrics = await ask(`${at(first.host)}/metrics`, { method: 'GET', ca }).catch(() => undefined)
  const now = dateOf(first.answer)
  const versions = statuses.map(({ version }) => version)
  return [
    versionCheck('etcd', versions, '3.4'),
    voters === undefined
      ? { what: 'servers', verdict: 'not checked', found: 'this login may not list the members' }
      : quorumCheck(voters),
    answersCheck(hosts, silent, voters ?? hosts.length),
    leaderCheck(statuses),
    await alarms(post, token),
    room(metrics?.status === 200 ? metrics.text : ''),
    await leastLease(post, token),
    accessCheck(await isOpen(post, place), 'etcdctl auth enable, with a user for these locks'),
    encryptionCheck(secure, login !== undefined),
    ...(now === undefined ? [] : [clockCheck(now, first.answer.middle)]),
  ]
}

async function statusOf(host: string, post: Post): Promise<Status> {
  const answer = await post('/v3/maintenance/status', {})
  const { version = '0', leader = '0' } = JSON.parse(answer.text) as { version?: string; leader?: string }
  if (answer.status !== 200) throw new Error(`${host} answers ${answer.status}`)
  return { host, version, leader, answer }
}

/** @throws Error when the login is refused */
async function tokenOf(post: Post, login: NonNullable<EtcdPlace['login']>): Promise<string> {
  const { status, text } = await post('/v3/auth/authenticate', login)
  // Where logins are off everybody may do everything, which is said elsewhere.
  if (status !== 200 && !/authentication is not enabled/.test(text)) throw new Error('the login was refused')
  return (JSON.parse(text) as { token?: string }).token ?? ''
}

async function votersOf(post: Post, token: string | undefined): Promise<number | undefined> {
  const { status, text } = await post('/v3/cluster/member/list', {}, token)
  if (status !== 200) return undefined
  const { members = [] } = JSON.parse(text) as { members?: { isLearner?: boolean }[] }
  return members.filter(({ isLearner }) => isLearner !== true).length
}

function leaderCheck(statuses: readonly Status[]): Check {
  const what = 'leader'
  const seen = new Set(statuses.map(({ leader }) => leader))
  const without = statuses.filter(({ leader }) => leader === '0').map(({ host }) => host)
  if (without.length > 0) return leaderlessCheck(without)
  if (seen.size === 1) return { what, verdict: 'ok', found: 'all that were asked have the same' }
  return { what, verdict: 'weak', found: 'it is changing at this moment', remedy: 'ask again' }
}

async function alarms(post: Post, token: string | undefined): Promise<Check> {
  const what = 'alarms'
  const { status, text } = await post('/v3/maintenance/alarm', { action: 'GET' }, token)
  if (status !== 200) return { what, verdict: 'not checked', found: 'this login may not see them' }
  const { alarms = [] } = JSON.parse(text) as { alarms?: { alarm?: string }[] }
  const kinds = [...new Set(alarms.map(({ alarm }) => alarm ?? 'unknown'))]
  if (kinds.length === 0) return { what, verdict: 'ok', found: 'none' }
  const remedy = 'compact and defragment, a greater --quota-backend-bytes, then `etcdctl alarm disarm`'
  return { what, verdict: 'bad', found: `${kinds.join(', ')}: it refuses to write`, remedy }
}

/** A full database raises an alarm, and takes nothing more. */
function room(metrics: string): Check {
  const what = 'room'
  const [used, most] = ['etcd_mvcc_db_total_size_in_bytes', 'etcd_server_quota_backend_bytes'].map((name) =>
    Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(metrics)?.[1]),
  )
  if (!used || !most) return { what, verdict: 'not checked', found: 'it shows no /metrics at this address' }
  const mega = (bytes: number) => Math.ceil(bytes / 1_048_576)
  const found = `${mega(used)} of ${mega(most)} MiB are used`
  if (used <= 0.8 * most) return { what, verdict: 'ok', found }
  const remedy = 'compact and defragment, or a greater --quota-backend-bytes'
  return { what, verdict: 'weak', found: `${found}: when it is full, nothing can be locked`, remedy }
}

/** So long, in s, is what an operator waits for at most without a thought. */
const longLease = 10

async function leastLease(post: Post, token: string | undefined): Promise<Check> {
  const what = 'least lease'
  const { status, text } = await post('/v3/lease/grant', { TTL: '1' }, token)
  if (status !== 200)
    return { what, verdict: 'bad', found: 'a lease was refused', remedy: 'the right to write' }
  const { ID, TTL } = JSON.parse(text) as { ID?: string; TTL?: string }
  await post('/v3/lease/revoke', { ID }, token)
  const found = `${TTL} s: a dead process keeps its locks for so long at least, from its last sign of life`
  if (Number(TTL) <= longLease) return { what, verdict: 'ok', found }
  return { what, verdict: 'weak', found, remedy: 'a shorter --election-timeout' }
}

/** May one without a login see the locks? */
async function isOpen(post: Post, { prefix }: EtcdPlace): Promise<boolean | undefined> {
  const key = Buffer.from(prefix ?? 'holdfast/').toString('base64') || 'AA=='
  const { status, text } = await post('/v3/kv/range', { key, count_only: true })
  if (status === 200) return true
  return /user name is empty|permission denied|invalid auth token/.test(text) ? false : undefined
}
