/**
 * ZooKeeper: version, servers, session limits compared with the driver's options, access, encryption. Sends four-letter words to the
 * servers named in the URL: `srvr`, which every server answers, and `conf` where allowed. Opens one session, and creates no node.
 */
import { connect } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { createLocks } from 'holdfast'
import type { ZookeeperOptions } from 'holdfast/zookeeper'
import { connectZookeeper, parseZookeeperAddress, type ZookeeperAddress } from '../connect-zookeeper.js'
import { brief } from '../print.js'
import { bad, type Check, ok, unchecked, weak } from './check.js'
import { encryptionCheck } from './encryption.js'
import { accessCheck, answersCheck, leaderlessCheck, quorumCheck, versionCheck } from './quorum.js'

/** The replies of one server. */
interface ServerReplies {
  readonly server: string
  readonly srvr: string
  /** Empty: not allowed. */
  readonly conf: string
}

export async function zookeeperSetup(url: string, shown: string): Promise<Check[]> {
  const options = parseZookeeperAddress(url.slice(url.indexOf(':') + 1), shown)
  const servers = String(options.servers).split(',')
  const asked = await Promise.all(servers.map((server) => askServer(server, options.tls)))
  const reply = asked.filter((one): one is ServerReplies => typeof one !== 'string')
  const silent = asked.filter((one) => typeof one === 'string')
  const [first] = reply
  if (first === undefined)
    throw new Error(`no server answers to srvr within ${timeout / 1_000} s: ${silent.join(', ')}`)
  const versions = reply.flatMap(({ srvr }) => /^Zookeeper version: ([\d.]+)/m.exec(srvr)?.[1] ?? [])
  const voters = countVoters(reply)
  const leader = leaderCheck(reply)
  return [
    versionCheck('ZooKeeper', versions, '3.5'),
    voters === undefined ? unknown('servers') : quorumCheck(voters),
    answersCheck(servers, silent, voters ?? servers.length),
    leader,
    ...(leader.verdict === 'bad' ? [] : [await session(options, shown)]),
    ...limits(reply, options),
    // The driver's nodes are open unless configured otherwise, whatever the server requires of others.
    accessCheck(options.acl !== 'creator', 'acl=creator in the URL, with a login'),
    encryptionCheck({
      ...{ hosts: servers, secure: options.tls !== undefined, secret: options.auth !== undefined },
      remedy: '?tls=true in the URL, and secureClientPort on the servers',
    }),
  ]
}

/** Opens a session and reads: a server that answers srvr may still admit nobody. Creates no node. */
async function session(options: ZookeeperAddress, shown: string): Promise<Check> {
  const what = 'session'
  const { driver } = await connectZookeeper(options, shown)
  const locks = createLocks(driver)
  try {
    await locks.inspect('holdfast-doctor')
    return ok(what, 'it can be opened, and nodes can be read')
  } catch (error) {
    const remedy = `a login in the URL (user:password@) that may use ${options.chroot ?? '/holdfast'}`
    return bad(what, brief((error as Error).message), 'no lock can be taken', remedy)
  } finally {
    await locks.close()
  }
}

const unknown = (what: string): Check =>
  unchecked(what, 'the servers do not answer to conf', '4lw.commands.whitelist=srvr,conf')

/** Resolves with the server's address if it does not answer. */
async function askServer(server: string, tls: ZookeeperOptions['tls']): Promise<ServerReplies | string> {
  try {
    const [srvr = '', conf = ''] = await Promise.all(['srvr', 'conf'].map((word) => ask(server, word, tls)))
    const allowed = (text: string) => (/not in the whitelist|not currently serving/.test(text) ? '' : text)
    return /^Zookeeper version|not currently serving/.test(srvr)
      ? { server, srvr, conf: allowed(conf) }
      : server
  } catch {
    return server
  }
}

/** Timeout of a server, in ms. */
const timeout = 5_000

function ask(server: string, word: string, tls: ZookeeperOptions['tls']): Promise<string> {
  const [, bracketed, host = bracketed ?? '', port = '2181'] =
    /^(?:\[([^\]]+)\]|([^:]+))(?::(\d+))?$/.exec(server) ?? []
  return new Promise((resolve, reject) => {
    const at = { host, port: Number(port) }
    const socket = tls === undefined ? connect(at) : connectTls({ ...tls, ...at })
    let reply = ''
    socket.setTimeout(timeout, () => socket.destroy(new Error(`no answer to ${word}`)))
    socket.setEncoding('utf8').on('data', (text: string) => {
      reply += text
    })
    socket.on('error', reject).on('close', () => resolve(reply))
    socket.write(word)
  })
}

/** Empty: it does not serve, because it has no leader. */
const parseMode = ({ srvr }: ServerReplies): string => /^Mode: (\w+)/m.exec(srvr)?.[1] ?? ''

/** Voting servers: the whole configuration except observers. */
function countVoters(reply: readonly ServerReplies[]): number | undefined {
  if (reply.some((one) => parseMode(one) === 'standalone')) return 1
  const conf = reply.find((one) => one.conf !== '')?.conf
  if (conf === undefined) return undefined
  return [...conf.matchAll(/^server\.\d+=(.*)$/gm)].filter(([, text = '']) => !/:observer\b/.test(text))
    .length
}

function leaderCheck(reply: readonly ServerReplies[]): Check {
  const what = 'leader'
  const modes = reply.map(parseMode)
  if (modes.includes('standalone') && modes.length > 1) {
    const found = 'a server that stands alone is named beside others: they are not one ensemble'
    const means = 'two processes can hold one lock, each in an ensemble of its own'
    return bad(what, found, means, 'name the servers of one ensemble')
  }
  const without = reply.filter((one) => parseMode(one) === '').map(({ server }) => server)
  if (without.length > 0) return leaderlessCheck(without)
  const found = reply.map((one) => `${one.server} ${parseMode(one)}`).join(', ')
  return ok(what, found)
}

const parseNumber = (text: string, name: string): number | undefined => {
  const found = new RegExp(`^${name}[=\\s]+(-?\\d+)`, 'm').exec(text)?.[1]
  return found === undefined ? undefined : Number(found)
}

/** The driver's claims about a session depend on the servers' tick, which the protocol does not reveal. */
function limits(
  reply: readonly ServerReplies[],
  { sessionTimeout = 15_000, tickTime = 3_000 }: ZookeeperOptions,
): Check[] {
  const conf = reply.find((one) => one.conf !== '')?.conf
  if (conf === undefined) return [unknown('tickTime'), unknown('session limits')]
  const [tick = 0, least = 0, most = 0] = ['tickTime', 'minSessionTimeout', 'maxSessionTimeout'].map((name) =>
    parseNumber(conf, name),
  )
  const ticks =
    tick <= tickTime
      ? ok('tickTime', `${tick} ms`)
      : bad(
          'tickTime',
          `${tick} ms, and this URL says ${tickTime} ms`,
          'a lease may be trusted for longer than its session lasts: two processes can hold one lock',
          `?tickTime=${tick} in the URL of every process`,
        )
  const range = `sessions last ${least} to ${most} ms`
  const what = 'session limits'
  if (sessionTimeout >= least && sessionTimeout <= most)
    return [ticks, ok(what, `${range}; ${sessionTimeout} ms are asked for`)]
  const granted = sessionTimeout < least ? least : most
  const found = `${range}; the ${sessionTimeout} ms that are asked for become ${granted} ms`
  const means = `safe; a crashed holder blocks others for about ${granted} ms, and leases are no longer than that`
  const remedy = `?sessionTimeout=${granted} in the URL, or other limits (minSessionTimeout, maxSessionTimeout)`
  return [ticks, weak(what, found, means, remedy)]
}
