/**
 * Identifies the kind of server at an address, for a message after the protocol of the URL has failed. Each kind is recognized by its reply
 * to a new connection; nothing logs in, and nothing is changed.
 */
import { connect } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { type Address, hostPort } from '../url.js'
import { ask } from './ask-http.js'

/** How long each kind may take to reveal itself, in ms. */
const timeLimit = 1_500
/** How long the expected kind is asked alone, in ms: servers log what another protocol sends them. */
const headStart = 300

export interface Kind {
  readonly name: string
  /** The schemes of URLs that it can be used with; the first is the one to write. */
  readonly schemes: readonly string[]
}

const sentinel: Kind = { name: 'a Redis Sentinel', schemes: ['redis+sentinel'] }
const cluster: Kind = { name: 'a node of a Redis Cluster', schemes: ['redis+cluster', 'redis', 'rediss'] }
const redis: Kind = { name: 'Redis or Valkey, and not a cluster', schemes: ['redis', 'rediss', 'redlock'] }
/** It does not say which, without a login. */
const anyRedis: Kind = { name: 'Redis or Valkey', schemes: [...redis.schemes, 'redis+cluster'] }
const postgres: Kind = { name: 'PostgreSQL', schemes: ['postgres', 'postgresql'] }
const mysql: Kind = { name: 'MySQL or MariaDB', schemes: ['mysql'] }
const zookeeper: Kind = { name: 'ZooKeeper', schemes: ['zookeeper'] }
const etcd: Kind = { name: 'etcd', schemes: ['etcd'] }
const consul: Kind = { name: 'Consul', schemes: ['consul'] }

const sslRequest = Buffer.from([0, 0, 0, 8, 4, 210, 22, 47])

/** Asks in one protocol. Undefined: the server does not speak it, or did not answer in time. */
type Probe = (at: Address) => Promise<Kind | undefined>

const modes: Readonly<Record<string, Kind>> = { sentinel, cluster, standalone: redis }

async function askRedis(at: Address): Promise<Kind | undefined> {
  const answer = await reply(at, 'INFO server\r\n')
  const [, mode = ''] = /^(?:redis|server)_mode:(\w+)/m.exec(answer) ?? []
  const speaks = /^(?:\$\d+\r\n# Server|-(?:NOAUTH|NOPERM|DENIED|ERR|LOADING|MISCONF))/.test(answer)
  return modes[mode] ?? (speaks ? anyRedis : undefined)
}

const probes: readonly { readonly speaks: readonly Kind[]; readonly ask: Probe }[] = [
  { speaks: [anyRedis, sentinel], ask: askRedis },
  {
    speaks: [postgres],
    ask: async (at) => (/^[SN]$/.test(await reply(at, sslRequest)) ? postgres : undefined),
  },
  {
    // The MySQL greeting: three bytes of length, the number 0, protocol 10, and the version.
    speaks: [mysql],
    ask: async (at) => {
      const answer = await reply(at, '')
      const greets =
        answer.charCodeAt(3) === 0 && answer.charCodeAt(4) === 10 && /^[\d.]+/.test(answer.slice(5))
      return greets ? mysql : undefined
    },
  },
  {
    speaks: [zookeeper],
    ask: async (at) =>
      /^Zookeeper version|is not executed because/.test(await reply(at, 'srvr')) ? zookeeper : undefined,
  },
  {
    speaks: [etcd],
    ask: async (at) => (/"etcdserver"/.test((await get(at, '/version')).text) ? etcd : undefined),
  },
  {
    speaks: [consul],
    ask: async (at) => {
      const { status, text } = await get(at, '/v1/status/leader')
      return status === 200 && /^"[^"]*"$/.test(text.trim()) ? consul : undefined
    },
  },
]

/** @param expected scheme of the kind to ask for first. Undefined: no known kind, or not in time. */
export async function identifyServer(at: Address, expected: string): Promise<Kind | undefined> {
  const isExpected = ({ speaks }: (typeof probes)[number]) =>
    speaks.some(({ schemes }) => schemes.includes(expected))
  const asking = (some: typeof probes) => some.map(({ ask }) => found(ask(at)))
  const first = asking(probes.filter(isExpected))
  const early = await Promise.any([...first, after(headStart)]).catch(() => undefined)
  if (early !== undefined) return early
  return Promise.any([...first, ...asking(probes.filter((probe) => !isExpected(probe)))]).catch(
    () => undefined,
  )
}

async function found(asked: Promise<Kind | undefined>): Promise<Kind> {
  const kind = await asked
  if (kind === undefined) throw new Error('another protocol')
  return kind
}

function after(ms: number): Promise<undefined> {
  return new Promise((resolve) => setTimeout(resolve, ms, undefined))
}

/** Does it speak TLS? Its certificate is not checked: nothing is sent. */
export function speaksTls({ host, port }: Address): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connectTls({ host, port, rejectUnauthorized: false })
    const end = (answer: boolean) => {
      clearTimeout(late)
      socket.destroy()
      resolve(answer)
    }
    const late = setTimeout(() => end(false), timeLimit)
    socket
      .on('secureConnect', () => end(true))
      .on('error', () => end(false))
      .on('close', () => end(false))
  })
}

function get(at: Address, path: string) {
  return ask(`http://${hostPort(at)}${path}`, { method: 'GET', timeout: timeLimit })
}

/** The first bytes of the reply, one character each; empty if there is none. */
function reply({ host, port }: Address, words: string | Buffer): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect({ host, port })
    const end = (answer: string) => {
      clearTimeout(late)
      socket.destroy()
      resolve(answer)
    }
    const late = setTimeout(() => end(''), timeLimit)
    socket.setEncoding('latin1').on('data', (text: string) => end(text))
    socket.on('error', () => end('')).on('close', () => end(''))
    if (words !== '') socket.write(words)
  })
}
