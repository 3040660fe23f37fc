// `engines` names a version, and exactly that version runs what the README shows: types and tests of a newer one would not show a problem.
// Second tier because it starts another version of Node, for what only a new function of Node can break.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { entries, manifest, root } from './support/checkout.js'
import { leakCheck } from './support/leaks.js'
import { unpacked } from './support/servers/fetch.js'

const folder = mkdtempSync(join(tmpdir(), 'holdfast-least-node-'))
const specifiers = entries.map(({ specifier }) => specifier)

test('the least Node that the package admits loads every entry point and runs what the README shows', async () => {
  const node = join((await unpacked('node20')).root, 'bin/node')
  const run = (...args: string[]): string => {
    const { status, stdout, stderr } = spawnSync(node, args, {
      encoding: 'utf8',
      env: { ...process.env, HOLDFAST_DIR: folder },
    })
    assert.equal(status, 0, stderr)
    return stdout
  }
  assert.equal(`>=${run('--version').trim().replace(/^v/, '').replace(/\.0$/, '')}`, manifest.engines.node)
  const child = fileURLToPath(new URL('./least-node-child.js', import.meta.url))
  assert.deepEqual(run(child, folder, ...specifiers).split('\n'), [
    ...specifiers,
    'lock',
    'all',
    'barrier',
    'once',
    '',
  ])
  const command = join(root, manifest.bin['holdfast'] ?? '')
  assert.equal(run(command, 'run', 'x', '--', 'echo', 'ran'), 'ran\n')
})

after(() => rmSync(folder, { recursive: true, force: true }))
after(leakCheck)
