/** `schema`: prints the schema a database needs, for users who do not let programs create tables. Connects to nothing. */
import type { Command } from 'commander'
import { parseMysqlAddress } from '../connect-mysql.js'
import { parsePostgresAddress } from '../connect-postgres.js'
import { badInput } from '../exit.js'
import { storeUrl } from '../store-url.js'
import { displayUrl } from '../url.js'

interface SchemaOptions {
  readonly on?: string
  readonly role?: string
}

export function schemaCommandLine(program: Command): void {
  program
    .command('schema')
    .summary('print the tables and functions that a database needs')
    .description(
      'Prints SQL that makes what the drivers postgres and mysql need, to be run once by whoever may create tables. ' +
        'Running it again changes nothing. Connects to nothing: the URL says which database it is for.',
    )
    .option(
      '--on <store>',
      'the database: a URL, or a name in holdfast.json (default: $HOLDFAST_URL, else its default)',
    )
    .option('--role <name>', 'also grant this role (MySQL: user) the least that the driver needs')
    .action(print)
}

async function print({ on, role }: SchemaOptions): Promise<void> {
  process.stdout.write(await migrationFor(storeUrl(on).url, role))
}

async function migrationFor(url: string, role: string | undefined): Promise<string> {
  const [, scheme = '', rest = ''] = /^([a-z][a-z0-9+.-]*):(.*)$/is.exec(url) ?? []
  const shown = displayUrl(scheme, rest)
  switch (scheme.toLowerCase()) {
    case 'postgres':
    case 'postgresql': {
      const { migration } = await import('holdfast/postgres')
      const { schema } = parsePostgresAddress(rest, shown).options
      return migration({ ...(schema !== undefined && { schema }), ...(role !== undefined && { role }) })
    }
    case 'mysql': {
      const { migration } = await import('holdfast/mysql')
      const { prefix } = parseMysqlAddress(rest, shown).options
      return migration({ ...(prefix !== undefined && { prefix }), ...(role !== undefined && { user: role }) })
    }
    default:
      throw badInput(`'${shown}' needs no schema; only postgres: and mysql: do, name one with --on`)
  }
}
