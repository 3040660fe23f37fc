// The site has every page in both languages, page for page, and its search finds Chinese words.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { targetOf } from '../docs/.vitepress/links.js'
import { groups, pagesOf } from '../docs/.vitepress/pages.js'
import { tokenize } from '../docs/.vitepress/search.js'
import { marked, sourceText, translatedText } from '../scripts/translated.js'
import { listFiles, read } from './support/checkout.js'
import { leakCheck } from './support/leaks.js'
import { brokenBold, differences } from './support/translations.js'

const pages = (folder: string): string[] =>
  listFiles(folder, '.md').map((path) => path.slice(folder.length + 1, -'.md'.length))
const english = pages('docs').filter((page) => !page.startsWith('zh/'))
const chinese = pages('docs/zh')

test('the sidebar has every page, each once', () => {
  const named = groups.flatMap((group) => pagesOf(group, 'en')).map(({ page }) => page)
  const expected = english.filter((page) => page !== 'index')
  assert.deepEqual(named.toSorted(), expected.toSorted(), 'add the page to docs/.vitepress/pages.ts')
})

test('docs/zh/untranslated.txt names exactly the pages that have no Chinese one, or their folder', () => {
  const listed = read('docs/zh/untranslated.txt')
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'))
  const folderOf = (page: string) => listed.find((line) => line.endsWith('/') && page.startsWith(line))
  const lacking = english.filter((page) => !chinese.includes(page))
  const translated = chinese.filter((page) => folderOf(page) !== undefined)
  assert.deepEqual(
    [...translated, ...listed].toSorted(),
    [...new Set(lacking.map((page) => folderOf(page) ?? page))].toSorted(),
  )
})

test('every Chinese page has an English one with the same headings and the same code', () => {
  assert.deepEqual(
    chinese.flatMap((page) => {
      if (!english.includes(page)) return [`docs/zh/${page}.md: there is no docs/${page}.md`]
      return differences(read(`docs/${page}.md`), read(`docs/zh/${page}.md`)).map(
        (difference) => `docs/zh/${page}.md: ${difference}`,
      )
    }),
    [],
  )
})

test('no sentence of an English page has changed since it was translated', () => {
  const stale = chinese.filter(
    (page) => translatedText(read(`docs/zh/${page}.md`)) !== sourceText(read(`docs/${page}.md`)),
  )
  assert.deepEqual(
    stale.map((page) => `docs/${page}.md is not what docs/zh/${page}.md translates`),
    [],
    `say the same in Chinese, then run: node build/scripts/translated.js ${stale.join(' ')}`,
  )
})

test('code is not part of what is translated, sentences are', () => {
  const page = '# A\n\nCall `take()`, see [there](a.md#x).\n\n```ts\ntake()\n```\n'
  assert.equal(sourceText(page.replaceAll('take', 'acquire').replace('a.md#x', 'b.md')), sourceText(page))
  assert.equal(sourceText(page.replace('Call', '\nCall')), sourceText(page))
  assert.notEqual(sourceText(page.replace('Call', 'Never call')), sourceText(page))
  const chinese = marked(page, '# 甲\n')
  assert.equal(translatedText(chinese), sourceText(page))
  assert.equal(marked(page, chinese), chinese)
  assert.equal(translatedText('# 甲\n'), undefined)
})

test('a page that lacks a heading or whose code differs is reported', () => {
  const page = '# A\n\n## B\n\n```ts\nf(1) // one\n```\n'
  assert.deepEqual(differences(page, '# 甲\n\n## 乙\n\n```ts\n// 一\nf(1)\n```\n'), [])
  assert.deepEqual(differences(page, '# 甲\n\n### 乙\n\n```ts\nf(1)\n```\n'), [
    'heading 2 is "### 乙", in English "## B"',
  ])
  assert.deepEqual(differences(page, '# 甲\n\n```ts\nf(1)\n```\n'), [
    'heading 2 is missing, in English "## B"',
  ])
  assert.deepEqual(differences(page, '# 甲\n\n## 乙\n\n```ts\nf(2)\n```\n'), [
    'line 5: the code differs from the English line 5: "f(2)" for "f(1)"',
  ])
  assert.deepEqual(differences(page, '# 甲\n\n## 乙\n'), ['1 fences of code in English, here 0'])
  assert.deepEqual(differences("```ts\nopen('redis://a')\n```", "```ts\nopen('redis://b')\n```"), [
    'line 1: the code differs from the English line 1: "open(\'redis://b\')" for "open(\'redis://a\')"',
  ])
})

test('no Chinese page shows asterisks where bold text was meant', () => {
  assert.deepEqual(
    chinese.flatMap((page) =>
      brokenBold(read(`docs/zh/${page}.md`)).map((line) => `docs/zh/${page}.md: ${line}`),
    ),
    [],
  )
  assert.deepEqual(brokenBold('**修法：**加锁'), ['line 1: **修法：**'])
  assert.deepEqual(brokenBold('先**“加锁”**'), ['line 1: **“加锁”**'])
  assert.deepEqual(
    brokenBold('。**修法**：加锁，**一定**要\n**代价：**\n`a **b：**c`\n```\n**a：**b\n```'),
    [],
  )
})

test('a link leads to a page, to the Chinese page where there is one, and else to a copy of the file', () => {
  const site = { base: '/', repository: undefined }
  const led = (target: string, page: string) => targetOf(target, page, site)?.href
  assert.equal(led('drivers/redis.md#options', 'guard.md'), '/drivers/redis#options')
  assert.equal(led('../adr/README.md', 'drivers/redis.md'), '/adr/')
  assert.equal(led('../index.md', 'zh/start.md'), '/zh/index')
  assert.equal(led('../which-one.md#not-us', 'zh/start.md'), '/zh/which-one#不该用我们的时候')
  assert.equal(led('../test/docs.test.ts', 'guard.md'), '/files/test/docs.test.ts.txt')
  assert.equal(led('../src/core', 'guard.md'), undefined)
  const elsewhere = { base: '/', repository: 'https://example.org/blob/main/' }
  assert.equal(targetOf('../src/core', 'guard.md', elsewhere)?.href, 'https://example.org/blob/main/src/core')
})

test('Chinese text is searched by characters and pairs, also beside Latin words', () => {
  assert.deepEqual(tokenize('Redis看门狗 lease_ttl'), [
    'redis',
    '看',
    '门',
    '狗',
    '看门',
    '门狗',
    'lease_ttl',
  ])
})

after(leakCheck)
