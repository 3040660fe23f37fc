/**
 * etcd: version, members, leader, alarms, space in the database, minimum lease, access, encryption, clock. Queries the JSON gateway;
 * creates only one lease, and revokes it.
 */
import { type EtcdAddress, parseEtcdAddress } from '../connect-etcd.js'
import { readKeys } from '../tls.js'
import { type Answer, ask, parseDate, recordSilence } from './ask-http.js'
import { bad, type Check, ok, unchecked, weak } from './check.js'
import { clockCheck } from './clock.js'
import { encryptionCheck } from './encryption.js'
import { accessCheck, answersCheck, leaderlessCheck, quorumCheck, versionCheck } from './quorum.js'

interface Status {
  readonly host: string
  readonly version: string
  /** Known to this member; '0' or absent: none. */
  readonly leader: string
  readonly answer: Answer
}

type Post = (path: string, body: object, token?: string) => Promise<Answer>

export async function etcdSetup(url: string, shown: string): Promise<Check[]> {
  const address = parseEtcdAddress(url.slice(url.indexOf(':') + 1), shown)
  const { hosts, tls, login } = address
  const keys = tls && readKeys(tls)
  const at = (host: string) => `${tls === undefined ? 'http' : 'https'}://${host}`
  const postTo =
    (host: string): Post =>
    (path, body, token) =>
      ask(at(host) + path, {
        method: 'POST',
        body: JSON.stringify(body),
        keys,
        ...(token !== undefined && { headers: { authorization: token } }),
      })
  const silence = recordSilence()
  const asked = await Promise.all(hosts.map((host) => readStatus(host, postTo(host)).catch(silence.of(host))))
  const statuses = asked.filter((one): one is Status => typeof one !== 'string')
  const silent = asked.filter((one) => typeof one === 'string')
  const [first] = statuses
  if (first === undefined) throw new Error(`no member answers: ${silence.text()}`)
  const post = postTo(first.host)
  const token = login === undefined ? undefined : await requestToken(post, login)
  const voters = await countVoters(post, token)
  const metrics = await ask(`${at(first.host)}/metrics`, { method: 'GET', keys }).catch(() => undefined)
  const now = parseDate(first.answer)
  const versions = statuses.map(({ version }) => version)
  return [
    versionCheck('etcd', versions, '3.4'),
    voters === undefined ? unchecked('servers', 'this login may not list the members') : quorumCheck(voters),
    answersCheck(hosts, silent, voters ?? hosts.length),
    leaderCheck(statuses),
    await alarms(post, token),
    room(metrics?.status === 200 ? metrics.text : ''),
    await minLease(post, token),
    await rights(post, address, token),
    accessCheck(await isOpen(post, address), 'etcdctl auth enable, with a user for these locks'),
    encryptionCheck({ hosts, secure: tls !== undefined, secret: login !== undefined }),
    ...(now === undefined ? [] : [clockCheck(now, first.answer.middle)]),
  ]
}

async function readStatus(host: string, post: Post): Promise<Status> {
  const answer = await post('/v3/maintenance/status', {})
  const { version = '0', leader = '0' } = JSON.parse(answer.text) as { version?: string; leader?: string }
  if (answer.status !== 200) throw new Error(`${host} answers ${answer.status}`)
  return { host, version, leader, answer }
}

/** @throws Error if the login is refused */
async function requestToken(post: Post, login: NonNullable<EtcdAddress['login']>): Promise<string> {
  const { status, text } = await post('/v3/auth/authenticate', login)
  // With authentication disabled, everybody may do everything; another check reports that.
  if (status !== 200 && !/authentication is not enabled/.test(text)) throw new Error('the login was refused')
  return (JSON.parse(text) as { token?: string }).token ?? ''
}

async function countVoters(post: Post, token: string | undefined): Promise<number | undefined> {
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
  if (seen.size === 1) return ok(what, 'all that were asked have the same')
  return weak(what, 'it is changing at this moment', 'locks wait until the election is over', 'ask again')
}

async function alarms(post: Post, token: string | undefined): Promise<Check> {
  const what = 'alarms'
  const { status, text } = await post('/v3/maintenance/alarm', { action: 'GET' }, token)
  if (status !== 200) return unchecked(what, 'this login may not see them')
  const { alarms = [] } = JSON.parse(text) as { alarms?: { alarm?: string }[] }
  const kinds = [...new Set(alarms.map(({ alarm }) => alarm ?? 'unknown'))]
  if (kinds.length === 0) return ok(what, 'none')
  const remedy = 'compact and defragment, a greater --quota-backend-bytes, then `etcdctl alarm disarm`'
  return bad(what, kinds.join(', '), 'it refuses to write: no lock can be taken', remedy)
}

/** A full database raises an alarm and accepts no more writes. */
function room(metrics: string): Check {
  const what = 'room'
  const [used, most] = ['etcd_mvcc_db_total_size_in_bytes', 'etcd_server_quota_backend_bytes'].map((name) =>
    Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(metrics)?.[1]),
  )
  if (!used || !most) return unchecked(what, 'it shows no /metrics at this address')
  const mega = (bytes: number) => Math.ceil(bytes / 1_048_576)
  const found = `${mega(used)} of ${mega(most)} MiB are used`
  if (used <= 0.8 * most) return ok(what, found)
  const remedy = 'compact and defragment, or a greater --quota-backend-bytes'
  return weak(what, found, 'when it is full, no lock can be taken', remedy)
}

/** A lease of up to this length, in s, needs no warning. */
const longLease = 10

async function minLease(post: Post, token: string | undefined): Promise<Check> {
  const what = 'least lease'
  const { status, text } = await post('/v3/lease/grant', { TTL: '1' }, token)
  if (status !== 200) {
    const remedy = 'see alarms; with logins on, a user that may write'
    return bad(what, `a lease was refused: ${reason(text)}`, 'no lock can be taken', remedy)
  }
  const { ID, TTL } = JSON.parse(text) as { ID?: string; TTL?: string }
  await post('/v3/lease/revoke', { ID }, token)
  const means = `safe; a dead process keeps its locks for ${TTL} s at least, from its last sign of life`
  if (Number(TTL) <= longLease) return ok(what, `${TTL} s`, means)
  return weak(what, `${TTL} s`, means, 'a shorter --election-timeout')
}

const reason = (text: string): string => {
  try {
    return (JSON.parse(text) as { message?: string }).message ?? text.slice(0, 100)
  } catch {
    return text.slice(0, 100)
  }
}

/** The server checks the rights for the whole transaction, including branches it does not run; this one's comparison is never true. */
async function rights(
  post: Post,
  { prefix = 'holdfast/' }: EtcdAddress,
  login: string | undefined,
): Promise<Check> {
  const what = 'rights'
  const key = Buffer.from(`${prefix}%doctor`).toString('base64')
  const never = { key, target: 'VERSION', result: 'LESS', version: '0' }
  const success = [{ request_put: { key, value: '' } }]
  const look = [{ request_range: { key } }]
  const { status, text } = await post('/v3/kv/txn', { compare: [never], success, failure: look }, login)
  if (status === 200) return ok(what, `this login may read and write ${JSON.stringify(prefix)}`)
  // A full database is reported through its alarm.
  if (/database space exceeded/.test(text)) return unchecked(what, 'the database is full')
  const remedy = `etcdctl role grant-permission ROLE readwrite --prefix=true ${JSON.stringify(prefix)}`
  return bad(what, `refused for ${JSON.stringify(prefix)}: ${reason(text)}`, 'no lock can be taken', remedy)
}

/** Can a client without a login read the locks? */
async function isOpen(post: Post, { prefix }: EtcdAddress): Promise<boolean | undefined> {
  const key = Buffer.from(prefix ?? 'holdfast/').toString('base64') || 'AA=='
  const { status, text } = await post('/v3/kv/range', { key, count_only: true })
  if (status === 200) return true
  return /user name is empty|permission denied|invalid auth token/.test(text) ? false : undefined
}
