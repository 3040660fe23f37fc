/** `ui`: a live page of one or several stores, on this machine. */
import type { Command } from 'commander'
import { target } from '../connect.js'
import { badInput } from '../exit.js'
import { reportStore } from '../store-url.js'
import type { TlsOptions } from '../tls-options.js'
import { tlsOptions, verboseText } from './options.js'

interface Options extends TlsOptions {
  readonly on?: readonly string[]
  readonly prefix?: string
  readonly port: string
  readonly listen: string
  readonly hostName: readonly string[]
  readonly allowRelease?: true
  readonly verbose?: true
}

const collect = (value: string, before: readonly string[] = []): string[] => [...before, value]

export function uiCommandLine(program: Command): void {
  const command = program
    .command('ui')
    .summary('a live page: who holds what, who waits, and what happened in the last minutes')
    .description(
      'Serves a live page of one or several stores: what is held and waited for, a timeline of the last minutes, rates, waits, and what doctor says. ' +
        'Only reads, unless it is started with --allow-release. Asks the store nothing while no browser looks.',
    )
    .option('--on <store>', 'a store: a URL, or a name in holdfast.json; several times for several', collect)
  tlsOptions(command)
    .option('--prefix <text>', 'only names that begin with it')
    .option('-p, --port <n>', 'the port; 0: any that is free', '7070')
    .option(
      '--listen <address>',
      'the address to listen on; any but this machine asks for a token',
      '127.0.0.1',
    )
    .option('--host-name <name>', 'another host name under which browsers reach it; repeatable', collect, [])
    .option('--allow-release', 'locks can be taken from their holders; asks for a token, too')
    .option('-v, --verbose', verboseText)
    .action(ui)
}

async function ui(options: Options): Promise<void> {
  const port = Number(options.port)
  if (!/^\d{1,5}$/.test(options.port) || port > 65_535)
    throw badInput(`--port must be between 0 and 65535, got '${options.port}'`)
  const stores = (options.on ?? [undefined]).map((url) => target(url, options))
  for (const [i, store] of stores.entries()) reportStore(store, { ...options, quiet: i > 0 })
  const { serve } = await import('../ui/serve.js')
  await serve(stores, { ...options, port })
}
