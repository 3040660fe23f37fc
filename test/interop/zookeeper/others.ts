// The real Curator and the real kazoo, each in a process of its own that is told what to do by lines.
import { execFile, spawn } from 'node:child_process'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import { unpacked } from '../../support/servers/fetch.js'
import { classPath, javaPrograms, thrifty } from '../../support/servers/java.js'
import { checkout, makeFolder, type WorkFolder } from '../../support/servers/places.js'
import { zookeeperJars } from '../../support/servers/zookeeper.js'

const sources = join(checkout, 'test/interop/zookeeper')
const answerWithin = 120_000

/** A client of another kind, holding or waiting for one lock. */
export interface Other {
  /** Says `words` and resolves with the one line of the answer. */
  ask(words: string): Promise<string>
  stop(): Promise<void>
}

/** How kazoo names its places: as it does, as it does and respecting those of others, or as Curator does. */
export type KazooStyle = 'plain' | 'patterns' | 'curator'

export async function kazoo(server: string, path: string, style: KazooStyle): Promise<Other> {
  const { root, libraries } = await unpacked('kazoo')
  return start(
    makeFolder('kazoo'),
    join(root, 'usr/bin/python3.11'),
    [join(sources, 'kazoo_lock.py'), server, path, style],
    {
      PYTHONHOME: join(root, 'usr'),
      PYTHONPATH: join(root, 'usr/lib/python3/dist-packages'),
      PYTHONDONTWRITEBYTECODE: '1',
      LD_LIBRARY_PATH: libraries,
    },
  )
}

let compiled: Promise<{ readonly folder: WorkFolder; readonly path: string }> | undefined

const curatorJars = [
  'curator-client',
  'curator-framework',
  'curator-recipes',
  'guava',
  'jackson-core',
  'jackson-databind',
  'jackson-annotations',
]

/** Compiles the small Java program, once. */
async function compile(): Promise<{ readonly folder: WorkFolder; readonly path: string }> {
  const folder = makeFolder('curator-classes')
  const jars = [await classPath('curator', curatorJars), await classPath('zookeeper', zookeeperJars)].join(
    ':',
  )
  const javac = join(await javaPrograms(), 'javac')
  await promisify(execFile)(javac, [
    '-nowarn',
    '-cp',
    jars,
    '-d',
    folder.path,
    join(sources, 'CuratorMutex.java'),
  ])
  return { folder, path: `${jars}:${folder.path}` }
}

export async function curator(server: string, path: string): Promise<Other> {
  compiled ??= compile()
  const { path: classes } = await compiled
  return start(
    makeFolder('curator'),
    join(await javaPrograms(), 'java'),
    [
      ...thrifty,
      '-Dorg.slf4j.simpleLogger.defaultLogLevel=error',
      '-cp',
      classes,
      'CuratorMutex',
      server,
      path,
    ],
    {},
  )
}

/** Removes what was compiled. */
export async function tidy(): Promise<void> {
  await (await compiled)?.folder.remove()
  compiled = undefined
}

async function start(
  folder: WorkFolder,
  command: string,
  args: readonly string[],
  env: Readonly<Record<string, string>>,
): Promise<Other> {
  const child = spawn(command, args, {
    cwd: folder.path,
    env: { PATH: process.env['PATH'] ?? '/usr/bin:/bin', LANG: 'C.UTF-8', ...env },
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  const heard: string[] = []
  const listeners: ((line: string) => void)[] = []
  let complaint = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    complaint += text
  })
  createInterface(child.stdout).on('line', (line) => {
    const listener = listeners.shift()
    if (listener === undefined) heard.push(line)
    else listener(line)
  })
  const gone = new Promise<void>((resolve) => child.once('exit', () => resolve()))
  const next = (what: string): Promise<string> =>
    new Promise((resolve, reject) => {
      const line = heard.shift()
      if (line !== undefined) return resolve(line)
      const fail = () =>
        reject(new Error(`no answer to '${what}' from ${args.at(-1)}: ${complaint.slice(-2000)}`))
      const timer = setTimeout(fail, answerWithin)
      listeners.push((answer) => {
        clearTimeout(timer)
        resolve(answer)
      })
      void gone.then(() => {
        clearTimeout(timer)
        fail()
      })
    })
  await next('the start')
  return {
    ask(words) {
      child.stdin.write(`${words}\n`)
      return next(words)
    },
    async stop() {
      child.kill('SIGKILL')
      await gone
      await folder.remove()
    },
  }
}
