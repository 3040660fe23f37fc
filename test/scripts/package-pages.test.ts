// Pages as they are published.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { publishedPage, releasedChanges } from '../../scripts/package-pages.js'
import { leakCheck } from '../support/leaks.js'

const published = new Set(['README.md', 'docs/a.md', 'docs/drivers/redis.md'])
const page = (text: string, repository?: string) => publishedPage('docs/a.md', text, published, repository)

test('a link to a published page stays, one to another file becomes its text', () => {
  assert.equal(page('[r](drivers/redis.md#x) [t](../test/x.test.ts)'), '[r](drivers/redis.md#x) t')
  assert.equal(page('[`a` b](b.md#c), [e](https://e.org/x) [h](#h)'), '`a` b, [e](https://e.org/x) [h](#h)')
})

test('with the address of the repository, it leads there', () => {
  const at = 'https://e.org/blob/main/'
  assert.equal(page('[t](../src)', at), '[t](https://e.org/blob/main/src)')
  assert.equal(page('[b](b.md#c)', at), '[b](https://e.org/blob/main/docs/b.md#c)')
  assert.equal(page('[r](../README.md)', at), '[r](../README.md)')
})

test('code is left alone', () => {
  const code = '```ts\nconst [a](b.md) = 1\n```'
  assert.equal(page(code), code)
})

test('what is pending is not in the published changes', () => {
  assert.equal(releasedChanges('# C\n\n## Pending\n\n- x\n\n## 1.0.0\n\n- y\n'), '# C\n\n## 1.0.0\n\n- y\n')
  assert.equal(releasedChanges('# C\n\n## 1.0.0\n'), '# C\n\n## 1.0.0\n')
})

after(leakCheck)
