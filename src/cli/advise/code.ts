/** A program to start from. */
import { type DriverName, drivers } from './drivers.js'
import type { Option } from './options.js'

export function codeFor(driver: DriverName, options: readonly Option[], lock: readonly Option[]): string {
  const inner = options.map(({ name, value }) => `${name}: ${literal(value)}`).join(', ')
  const made = drivers[driver].code
    .join('\n')
    .replace(', OPTIONS', inner === '' ? '' : `, ${inner}`)
    .replace('OPTIONS', inner === '' ? '' : `{ ${inner} }`)
  const settings = lock.map(({ name, value }) => `${name}: ${literal(value)}`).join(', ')
  return [
    "import { createLocks } from 'holdfast'",
    made,
    `const lock = locks.mutex('name'${settings === '' ? '' : `, { ${settings} }`})`,
    'await lock.run(async (lease) => {',
    '  lease.assertHeld() // before each step that matters; lease.token is for the guard',
    '})',
  ].join('\n')
}

const literal = (value: Option['value']): string => (typeof value === 'string' ? `'${value}'` : `${value}`)
