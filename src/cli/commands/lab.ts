/** `holdfast lab`: plays what goes wrong with locks, on real servers. The scenes are in the checkout, not in the package. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Command } from 'commander'
import { CliError, exits } from '../exit.js'

interface LabOptions {
  readonly svg?: string
  readonly list?: true
}

const root = fileURLToPath(new URL('../../../../', import.meta.url))

export function labCommandLine(program: Command): void {
  program
    .command('lab')
    .summary('what goes wrong with locks, on real servers: the plain way and with holdfast')
    .description(
      'Plays scenes on servers of its own (Redis, ZooKeeper, etcd, Consul, MariaDB, PostgreSQL): a plain lock fails, and what holdfast ' +
        'does in the same place, with a picture of who held the lock when. Needs a checkout of the project, which has the scenes and ' +
        'fetches the servers (see docs/lab.md).',
    )
    .argument('[scene...]', 'which ones (default: all)')
    .option('--list', 'say which there are, and what servers they need')
    .option('--svg <folder>', 'also draw the pictures into this folder')
    .action(lab)
}

async function lab(scenes: readonly string[], { list, svg }: LabOptions): Promise<void> {
  const main = join(root, 'build/lab/scenes/main.js')
  if (!existsSync(main)) {
    throw new CliError(
      exits.unavailable,
      'the lab is not part of the package: clone the project, then npm ci && npm run lab, on Linux; it fetches and starts the servers by itself',
    )
  }
  const options = [...(list ? ['--list'] : []), ...(svg === undefined ? [] : ['--svg', svg])]
  const child = spawn(process.execPath, ['--enable-source-maps', main, ...options, '--', ...scenes], {
    stdio: 'inherit',
  })
  const [code, signal] = (await once(child, 'exit')) as [number | null, NodeJS.Signals | null]
  process.exitCode = signal === null ? (code ?? exits.internal) : exits.internal
}
