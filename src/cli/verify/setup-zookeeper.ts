/**
 * ZooKeeper: version, servers, session limits against what the driver is told, access, encryption. Says four-letter words to the
 * servers that the URL names: `srvr`, which every server answers, and `conf` where that is allowed.
 */
import { connect } from 'node:net'
import { connect as connectTls } from 'node:tls'
import type { ZookeeperOptions } from 'holdfast/zookeeper'
import { zookeeperPlace } from '../connect-zookeeper.js'
import type { Check } from './setup.js'
import {
  accessCheck,
  answersCheck,
  encryptionCheck,
  leaderlessCheck,
  quorumCheck,
  versionCheck,
} from './setup-quorum.js'

/** What one server said. */
interface Said {
  readonly server: string
  readonly srvr: string
  /** Empty: not allowed. */
  readonly conf: string
}

export async function zookeeperSetup(url: string, shown: string): Promise<Check[]> {
  const options = zookeeperPlace(url.slice(url.indexOf(':') + 1), shown)
  const servers = String(options.servers).split(',')
  const asked = await Promise.all(servers.map((server) => heard(server, options.tls)))
  const said = asked.filter((one): one is Said => typeof one !== 'string')
  const silent = asked.filter((one) => typeof one === 'string')
  const [first] = said
  if (first === undefined) throw new Error(`no server answers to srvr: ${silent.join(', ')}`)
  const versions = said.flatMap(({ srvr }) => /^Zookeeper version: ([\d.]+)/m.exec(srvr)?.[1] ?? [])
  const voters = votersOf(said)
  return [
    versionCheck('ZooKeeper', versions, '3.5'),
    voters === undefined ? unknown('servers') : quorumCheck(voters),
    answersCheck(servers, silent, voters ?? servers.length),
    leaderCheck(said),
    ...limits(said, options),
    // Nodes of this driver are open unless it was told otherwise, whatever the server asks of others.
    accessCheck(options.acl !== 'creator', 'acl=creator in the URL, with a login'),
    encryptionCheck(options.tls !== undefined, options.auth !== undefined),
  ]
}

const unknown = (what: string): Check => ({
  what,
  verdict: 'not checked',
  found: 'the servers do not answer to conf',
  remedy: '4lw.commands.whitelist=srvr,conf',
})

/** Resolves with its address when it does not answer. */
async function heard(server: string, tls: ZookeeperOptions['tls']): Promise<Said | string> {
  try {
    const [srvr = '', conf = ''] = await Promise.all(['srvr', 'conf'].map((word) => ask(server, word, tls)))
    const allowed = (text: string) => (/not in the whitelist|not currently serving/.test(text) ? '' : text)
    return srvr === '' ? server : { server, srvr, conf: allowed(conf) }
  } catch {
    return server
  }
}

/** How long a server may take, in ms. */
const patience = 5_000

function ask(server: string, word: string, tls: ZookeeperOptions['tls']): Promise<string> {
  const [, bracketed, host = bracketed ?? '', port = '2181'] =
    /^(?:\[([^\]]+)\]|([^:]+))(?::(\d+))?$/.exec(server) ?? []
  return new Promise((resolve, reject) => {
    const at = { host, port: Number(port) }
    const socket = tls === undefined ? connect(at) : connectTls({ ...tls, ...at })
    let said = ''
    socket.setTimeout(patience, () => socket.destroy(new Error(`no answer to ${word}`)))
    socket.setEncoding('utf8').on('data', (text: string) => {
      said += text
    })
    socket.on('error', reject).on('close', () => resolve(said))
    socket.write(word)
  })
}

/** Empty: it does not serve, because it has no leader. */
const modeOf = ({ srvr }: Said): string => /^Mode: (\w+)/m.exec(srvr)?.[1] ?? ''

/** Those that vote: all of the configuration but observers. */
function votersOf(said: readonly Said[]): number | undefined {
  if (said.some((one) => modeOf(one) === 'standalone')) return 1
  const conf = said.find((one) => one.conf !== '')?.conf
  if (conf === undefined) return undefined
  return [...conf.matchAll(/^server\.\d+=(.*)$/gm)].filter(([, text = '']) => !/:observer\b/.test(text))
    .length
}

function leaderCheck(said: readonly Said[]): Check {
  const what = 'leader'
  const modes = said.map(modeOf)
  if (modes.includes('standalone') && modes.length > 1) {
    const found = 'a server that stands alone is named beside others: they are not one ensemble'
    return { what, verdict: 'bad', found, remedy: 'name the servers of one ensemble' }
  }
  const without = said.filter((one) => modeOf(one) === '').map(({ server }) => server)
  if (without.length > 0) return leaderlessCheck(without)
  const found = said.map((one) => `${one.server} ${modeOf(one)}`).join(', ')
  return { what, verdict: 'ok', found }
}

const numberIn = (text: string, name: string): number | undefined => {
  const found = new RegExp(`^${name}[=\\s]+(-?\\d+)`, 'm').exec(text)?.[1]
  return found === undefined ? undefined : Number(found)
}

/** The driver takes a tick off what it claims of a session, so it must know the servers' own. */
function limits(
  said: readonly Said[],
  { sessionTimeout = 10_000, tickTime = 2_000 }: ZookeeperOptions,
): Check[] {
  const conf = said.find((one) => one.conf !== '')?.conf
  if (conf === undefined) return [unknown('tickTime'), unknown('session limits')]
  const [tick = 0, least = 0, most = 0] = ['tickTime', 'minSessionTimeout', 'maxSessionTimeout'].map((name) =>
    numberIn(conf, name),
  )
  const ticks: Check =
    tick <= tickTime
      ? { what: 'tickTime', verdict: 'ok', found: `${tick} ms` }
      : {
          what: 'tickTime',
          verdict: 'bad',
          found: `${tick} ms, and ${tickTime} ms are taken off what a session is trusted for`,
          remedy: `tickTime=${tick} in the URL`,
        }
  const range = `sessions last ${least} to ${most} ms`
  const what = 'session limits'
  if (sessionTimeout >= least && sessionTimeout <= most)
    return [ticks, { what, verdict: 'ok', found: `${range}; ${sessionTimeout} ms are asked for` }]
  const found = `${range}: the ${sessionTimeout} ms that are asked for become ${sessionTimeout < least ? least : most} ms`
  const remedy = 'a sessionTimeout within the limits, or other limits'
  return [ticks, { what, verdict: 'weak', found, remedy }]
}
