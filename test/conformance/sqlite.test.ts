// The driver of examples/sqlite-driver passes the suite that every driver passes.
// Second tier because it is an example; sqlite-file.test.ts is the part for every change.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import { conformance, inProcess } from 'holdfast/conformance'
import { leakCheck } from '../support/leaks.js'
import { open } from './sqlite-client.js'

const folder = mkdtempSync(join(tmpdir(), 'holdfast-sqlite-'))
const file = join(folder, 'locks.db')
const traits = {
  modes: ['exclusive', 'shared', 'permits'],
  fair: true,
  minTtl: 50,
  shared: true,
  maxLockDelay: Number.POSITIVE_INFINITY,
  portable: true,
} as const

conformance(
  { describe, it },
  {
    name: 'sqlite, the example',
    traits,
    childClient: {
      module: new URL('./sqlite-client.js', import.meta.url).href,
      export: 'open',
      args: [file],
    },
    ...inProcess(() => open(file)),
  },
)

after(leakCheck)
after(() => rmSync(folder, { recursive: true }))
