// ZooKeeper 3.8: one server, or an ensemble of three, with all that can be done to them.
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { until } from '../until.js'
import { classPath, javaPrograms, thrifty } from './java.js'
import { makeFolder } from './places.js'
import { freePort } from './ports.js'
import { launch, onFreePort, onOtherPorts, type Program, type Running, startAll } from './process.js'

const host = '127.0.0.1'

/** The jars a server and a client cannot do without. */
export const zookeeperJars: readonly string[] = [
  'zookeeper',
  'zookeeper-jute',
  'metrics-core',
  'slf4j-api',
  'slf4j-simple',
  'snappy-java',
]

const nettyJars: readonly string[] = [
  ...['netty-common', 'netty-buffer', 'netty-transport', 'netty-handler', 'netty-codec', 'netty-resolver'],
  ...['netty-transport-native-epoll', 'netty-transport-native-unix-common', 'jctools-core'],
]

export interface ZookeeperOptions {
  /** ms; sessions last 2 to 20 of them. Default 500. */
  readonly tickTime?: number
  readonly port?: number
  /** Lines added to zoo.cfg. */
  readonly config?: readonly string[]
  /** Further arguments of its Java: `-Dname=value`. */
  readonly properties?: readonly string[]
  /** A file with a key and its certificate: then it also serves TLS, at `secureAddress`. */
  readonly tls?: string
  /** Every write is synced to disk before it is answered, as in production. Default false: tests are about other things. */
  readonly durable?: boolean
  /** Called with the empty data folder before the first start. */
  readonly prepare?: (data: string) => Promise<void> | void
}

/** A server that was started for a test. */
export interface ZookeeperServer extends AsyncDisposable {
  readonly host: string
  /** The same over restarts. */
  readonly port: number
  /** `127.0.0.1:PORT` */
  readonly address: string
  /** For TLS; there only when that was asked for. */
  readonly secureAddress: string | undefined
  readonly running: boolean
  readonly pid: number
  log(): string
  /** One of the four-letter words: `srvr`, `mntr`, `wchp`, `dump`, … */
  ask(word: string): Promise<string>
  /** Packets it has received so far, the words above not counted: requests, and pings. */
  received(): Promise<number>
  kill9(): Promise<void>
  /** Same port; killed first if it runs. Without `keepData` (default true) it starts empty. */
  restart(options?: { readonly keepData?: boolean }): Promise<void>
  /** SIGSTOP; when it returns the server is paused. */
  pause(): void
  resume(): void
  /** Final; may be called twice. */
  stop(): Promise<void>
}

export interface Ensemble extends AsyncDisposable {
  readonly servers: readonly ZookeeperServer[]
  readonly addresses: readonly string[]
  /** The running server that leads now; waits until there is one. */
  leader(): Promise<ZookeeperServer>
  /** The running servers that follow now. */
  followers(): Promise<readonly ZookeeperServer[]>
  stop(): Promise<void>
}

export function startZookeeper(options: ZookeeperOptions = {}): Promise<ZookeeperServer> {
  return onFreePort((port) => startOne(options, port, 1, []), options.port)
}

/** Which port stands for `port` of server `to` when server `from` speaks to it: that of a proxy, or the same. From 0. */
export type Between = (from: number, to: number, port: number) => Promise<number>

type EnsembleOptions = ZookeeperOptions & { readonly between?: Between; readonly betweenElections?: Between }

/** Three servers that elect a leader. */
export function startEnsemble(options: EnsembleOptions = {}): Promise<Ensemble> {
  return onOtherPorts(() => startThree(options))
}

async function startThree(options: EnsembleOptions): Promise<Ensemble> {
  const straight: Between = async (_from, _to, port) => port
  const { between = straight, betweenElections = straight } = options
  const three = () => Promise.all([freePort(), freePort(), freePort()])
  const [ports, quorum, election] = [await three(), await three(), await three()]
  const membersFor = (from: number) =>
    Promise.all(
      ports.map(async (_, to) => {
        const port = quorum[to] ?? 0
        const votes = election[to] ?? 0
        const seen =
          from === to
            ? [port, votes]
            : [await between(from, to, port), await betweenElections(from, to, votes)]
        return `server.${to + 1}=${host}:${seen.join(':')}`
      }),
    )
  const { servers, stop } = await startAll(
    ports.map(async (port, i) => startOne(options, port, i + 1, await membersFor(i))),
  )
  const modes = async (): Promise<readonly (readonly [ZookeeperServer, string])[]> =>
    Promise.all(
      servers
        .filter(({ running }) => running)
        .map(async (server) => [server, await readMode(server.port)] as const),
    )
  return {
    servers,
    addresses: servers.map(({ address }) => address),
    leader: () =>
      until(async () => (await modes()).find(([, mode]) => mode === 'leader')?.[0], {
        within: 60_000,
        every: 20,
        what: 'a leader',
      }),
    followers: async () =>
      (await modes()).filter(([, mode]) => mode === 'follower').map(([server]) => server),
    stop,
    [Symbol.asyncDispose]: stop,
  }
}

// Longer than a function should be: a table of short verbs over two variables.
async function startOne(
  options: ZookeeperOptions,
  port: number,
  id: number,
  members: readonly string[],
): Promise<ZookeeperServer> {
  const folder = makeFolder('zookeeper')
  const data = join(folder.path, 'data')
  const log = join(folder.path, 'log')
  const fill = async (): Promise<void> => {
    mkdirSync(data)
    writeFileSync(join(data, 'myid'), `${id}\n`)
    await options.prepare?.(data)
  }
  await fill()
  const securePort = options.tls === undefined ? undefined : await freePort()
  const program = await findProgram(options, { port, securePort, data, folder: folder.path, log, members })
  let running: Running
  try {
    running = await launch(program)
  } catch (error) {
    await folder.remove()
    throw error
  }
  let stopped: Promise<void> | undefined
  const kill9 = (): Promise<void> => running.end('SIGKILL')
  const stop = (): Promise<void> => (stopped ??= kill9().then(() => folder.remove()))
  const ask = (word: string): Promise<string> => fourLetters(port, word)
  return {
    host,
    port,
    address: `${host}:${port}`,
    secureAddress: securePort === undefined ? undefined : `${host}:${securePort}`,
    get running() {
      return running.alive
    },
    get pid() {
      return running.pid
    },
    log: () => readFileSync(log, 'utf8'),
    ask,
    received: async () => Number(/^zk_packets_received\s+(\d+)/m.exec(await ask('mntr'))?.[1]),
    kill9,
    restart: async ({ keepData = true } = {}) => {
      await kill9()
      if (!keepData) {
        rmSync(data, { recursive: true })
        await fill()
      }
      running = await launch(program)
    },
    pause: () => running.pause(),
    resume: () => running.resume(),
    stop,
    [Symbol.asyncDispose]: stop,
  }
}

interface Place {
  readonly port: number
  readonly securePort: number | undefined
  readonly data: string
  readonly folder: string
  readonly log: string
  readonly members: readonly string[]
}

async function findProgram(options: ZookeeperOptions, place: Place): Promise<Program> {
  const { port, securePort, data, folder, log, members } = place
  const config = join(folder, 'zoo.cfg')
  const lines = [
    `tickTime=${options.tickTime ?? 500}`,
    'initLimit=20',
    'syncLimit=10',
    `dataDir=${data}`,
    `clientPort=${port}`,
    `clientPortAddress=${host}`,
    'admin.enableServer=false',
    '4lw.commands.whitelist=*',
    'maxClientCnxns=0',
    'extendedTypesEnabled=true',
    ...(securePort === undefined ? [] : overTls(securePort, options.tls)),
    ...(options.config ?? []),
    ...members,
  ]
  writeFileSync(config, `${lines.join('\n')}\n`)
  return {
    name: `zookeeper on port ${port}`,
    command: join(await javaPrograms(), 'java'),
    args: [
      ...thrifty,
      `-Dzookeeper.forceSync=${options.durable === true ? 'yes' : 'no'}`,
      // Servers that look for each other ask at least once a second; by default they wait up to a minute.
      '-Dzookeeper.fastleader.maxNotificationInterval=1000',
      '-Dorg.slf4j.simpleLogger.defaultLogLevel=warn',
      ...(options.properties ?? []),
      '-cp',
      await classPath(
        'zookeeper',
        zookeeperJars,
        securePort === undefined ? [] : [await classPath('netty', nettyJars)],
      ),
      'org.apache.zookeeper.server.quorum.QuorumPeerMain',
      config,
    ],
    env: {},
    folder,
    log,
    ready: async () => (await readMode(port)) !== '',
    readyWithin: 120_000,
  }
}

function overTls(port: number, pem = ''): readonly string[] {
  return [
    `secureClientPort=${port}`,
    'serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory',
    `ssl.keyStore.location=${pem}`,
    'ssl.keyStore.type=PEM',
    'ssl.clientAuth=none',
  ]
}

/** `standalone`, `leader`, `follower`; empty while it does not serve. */
async function readMode(port: number): Promise<string> {
  // Not for long: one that was stopped is asked, too.
  const answer = await fourLetters(port, 'srvr', 2_000).catch(() => '')
  return /^Mode: (\w+)/m.exec(answer)?.[1] ?? ''
}

function fourLetters(port: number, word: string, within = 30_000): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, host)
    let output = ''
    socket.setTimeout(within, () => socket.destroy(new Error(`no answer to ${word} from port ${port}`)))
    socket.setEncoding('utf8').on('data', (text: string) => {
      output += text
    })
    socket.on('error', reject).on('close', () => resolve(output))
    socket.write(word)
  })
}
