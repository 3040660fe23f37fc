// What `npm run release` refuses to publish without.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { missing } from '../../scripts/release.js'
import { read } from '../support/checkout.js'
import { leakCheck } from '../support/leaks.js'

const at = 'https://e.org/blob/main/'
const manifest = { version: '1.0.0', repository: at, homepage: at, bugs: at }

test('nothing is missing where address, version and changes are there', () => {
  assert.deepEqual(missing(manifest, '# C\n\n## Pending\n\n## 1.0.0\n\nThe first release.\n', at), [])
  assert.deepEqual(missing(manifest, '# C\n\n## 1.0.0\n', at), [])
})

test('each thing that is missing is named', () => {
  const lacks = missing(
    { version: '0.1.0' },
    '## Pending\n\n- x\n  y\n- z\n\n## 1.0.0\n\nThe first release. Not published yet: a\n',
    '',
  )
  assert.deepEqual(
    lacks.map(
      (line) =>
        /repository:|homepage|bugs|HOLDFAST_REPOSITORY|section "## 0\.1\.0"|2 entries|Not published yet/.exec(
          line,
        )?.[0],
    ),
    [
      'repository:',
      'homepage',
      'bugs',
      'HOLDFAST_REPOSITORY',
      'section "## 0.1.0"',
      '2 entries',
      'Not published yet',
    ],
  )
})

test('the changelog has the section of the first release', () => {
  assert.match(read('CHANGELOG.md'), /^## 1\.0\.0$/m)
})

after(leakCheck)
