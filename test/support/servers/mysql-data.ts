// Data directories of MariaDB and MySQL.
import { execFile } from 'node:child_process'
import { mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { findLoader, unpacked } from './fetch.js'
import { copyFolder, template } from './templates.js'

const run = promisify(execFile)

/** MariaDB 10.11 · MySQL 9. */
export type Flavour = 'mariadb' | 'mysql'

export const recipes: Record<Flavour, string> = { mariadb: 'mariadb10', mysql: 'mysql9' }

/** How the unpacked server is run: its own loader where it needs one, and what every start has in common. */
export interface Binaries {
  readonly command: string
  /** `preloads` are shims, by path. */
  args(preloads: readonly string[]): readonly string[]
  env(preloads: readonly string[]): Readonly<Record<string, string>>
  readonly common: readonly string[]
  readonly root: string
  readonly libraries: string
}

export async function binaries(flavour: Flavour): Promise<Binaries> {
  const { root, libraries } = await unpacked(recipes[flavour])
  const asRoot = process.getuid?.() === 0 ? ['--user=root'] : []
  const common = [
    '--no-defaults',
    `--basedir=${root}/usr`,
    `--lc-messages-dir=${root}/usr/share/mysql`,
    ...asRoot,
  ]
  if (flavour === 'mariadb') {
    return {
      command: join(root, 'usr/sbin/mariadbd'),
      args: () => [],
      env: (preloads) => ({
        LD_LIBRARY_PATH: libraries,
        ...(preloads.length > 0 && { LD_PRELOAD: preloads.join(':') }),
      }),
      ...{ common, root, libraries },
    }
  }
  const preload = (preloads: readonly string[]) =>
    preloads.length > 0 ? ['--preload', preloads.join(':')] : []
  return {
    command: findLoader(libraries),
    args: (preloads) => [...preload(preloads), '--library-path', libraries, join(root, 'usr/sbin/mysqld')],
    env: () => ({}),
    // Its compiled-in default folder for files does not exist here, and without it the server would not start.
    common: [...common, '--secure-file-priv=NULL'],
    ...{ root, libraries },
  }
}

const small: Record<Flavour, readonly string[]> = {
  mariadb: ['--innodb-log-file-size=8M'],
  mysql: ['--innodb-redo-log-capacity=8M'],
}

/** Arguments that must be the same when the directory is made and when it is used. */
export const layout: (flavour: Flavour) => readonly string[] = (flavour) => small[flavour]

/** Copies a fresh data directory to `to`, which must not exist. */
export async function freshData(flavour: Flavour, to: string): Promise<void> {
  await copyFolder(await made(flavour), to)
}

function made(flavour: Flavour): Promise<string> {
  return template(flavour, recipes[flavour], layout(flavour), async (to) => {
    await initialise(flavour, await binaries(flavour), to)
    // Every server makes an identity of its own.
    rmSync(join(to, 'auto.cnf'), { force: true })
  })
}

async function initialise(flavour: Flavour, server: Binaries, to: string): Promise<void> {
  const tmp = `${to}.tmp`
  mkdirSync(tmp)
  try {
    await runInitialise(flavour, server, to, tmp)
  } finally {
    rmSync(tmp, { recursive: true })
  }
}

async function runInitialise(flavour: Flavour, server: Binaries, to: string, tmp: string): Promise<void> {
  if (flavour === 'mysql') {
    const args = [
      ...server.args([]),
      ...server.common,
      ...layout(flavour),
      '--initialize-insecure',
      `--datadir=${to}`,
      `--tmpdir=${tmp}`,
    ]
    await run(server.command, args, { env: { ...process.env, ...server.env([]) } })
    return
  }
  const args = [...server.common, ...layout(flavour), `--datadir=${to}`, `--tmpdir=${tmp}`]
  const script = join(server.root, 'usr/bin/mariadb-install-db')
  const more = ['--auth-root-authentication-method=normal', '--skip-test-db']
  await run(script, [...args, ...more], { env: { ...process.env, ...server.env([]) } })
}
