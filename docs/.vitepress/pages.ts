// The pages of the site, in the order of its sidebar, with their short names in both languages. test/docs-site.test.ts checks that no page
// of docs/ is missing here, and that docs/zh has every page but those of docs/zh/untranslated.txt.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

export type Language = 'en' | 'zh'

/** A page by its path below docs/ (without `.md`), or all pages of a folder. */
export type Entry =
  | { readonly page: string; readonly en: string; readonly zh: string }
  | { readonly folder: string }

export interface Group {
  readonly en: string
  readonly zh: string
  readonly entries: readonly Entry[]
  /** Closed until somebody opens it. */
  readonly closed?: boolean
}

export const docs: string = fileURLToPath(
  new URL(import.meta.url.includes('/build/docs/') ? '../../../docs/' : '../', import.meta.url),
)

export const groups: readonly Group[] = [
  {
    en: 'Start',
    zh: '入门',
    entries: [
      { page: 'start', en: 'The first minute', zh: '一分钟上手' },
      { page: 'which-one', en: 'Which one?', zh: '怎么选' },
      { page: 'frameworks', en: 'Frameworks', zh: '框架集成' },
      { page: 'coming-from', en: 'Coming from another lock', zh: '从其他锁迁移' },
    ],
  },
  {
    en: 'Learn',
    zh: '原理与课程',
    entries: [
      { folder: 'learn' },
      { page: 'ladder', en: 'The ladder', zh: '从 SETNX 到栅栏令牌' },
      { page: 'stories', en: 'Stories', zh: '业务故事' },
      { page: 'lab', en: 'The lab', zh: '实验室' },
    ],
  },
  {
    en: 'Use',
    zh: '使用',
    entries: [
      { page: 'primitives', en: 'More than a lock', zh: '不只是锁' },
      { page: 'guard', en: 'Guards', zh: '栅栏校验（guard）' },
      { page: 'web-locks', en: 'Web Locks', zh: 'Web Locks' },
      { page: 'cli', en: 'Command line', zh: '命令行' },
      { page: 'ui', en: 'Live page', zh: '实时页面' },
    ],
  },
  {
    en: 'Drivers',
    zh: '驱动',
    entries: [
      { page: 'drivers/memory', en: 'memory', zh: 'memory' },
      { page: 'drivers/local', en: 'local', zh: 'local' },
      { page: 'drivers/redis', en: 'redis', zh: 'redis' },
      { page: 'drivers/redlock', en: 'redlock', zh: 'redlock' },
      { page: 'drivers/postgres', en: 'postgres', zh: 'postgres' },
      { page: 'drivers/mysql', en: 'mysql', zh: 'mysql' },
      { page: 'drivers/etcd', en: 'etcd', zh: 'etcd' },
      { page: 'drivers/zookeeper', en: 'zookeeper', zh: 'zookeeper' },
      { page: 'drivers/consul', en: 'consul', zh: 'consul' },
    ],
  },
  { en: 'Reference', zh: '参考', entries: [{ folder: 'reference' }] },
  {
    en: 'Operate',
    zh: '生产运维',
    entries: [
      { page: 'production', en: 'Production checklist', zh: '上线检查清单' },
      { page: 'runbooks', en: 'Runbooks', zh: '故障手册' },
      { page: 'telemetry', en: 'Metrics and spans', zh: '指标与链路追踪' },
      { page: 'security', en: 'Security', zh: '安全' },
      { page: 'versioning', en: 'Versioning', zh: '版本策略' },
    ],
  },
  {
    en: 'Evidence',
    zh: '证据',
    entries: [
      { page: 'guarantees', en: 'Guarantees and weak points', zh: '保证与弱点' },
      { page: 'promises', en: 'What every driver promises', zh: '各驱动的承诺' },
      { page: 'hazards', en: 'Hazards', zh: '隐患与测试' },
      { page: 'bench', en: 'Figures', zh: '性能数据' },
      { page: 'verify', en: 'Histories and checkers', zh: '历史与检查器' },
      { page: 'models', en: 'Models', zh: '形式化模型' },
      { page: 'simulation', en: 'Simulation', zh: '确定性模拟' },
      { page: 'lab-faults', en: 'Fault lab', zh: '故障注入' },
      { page: 'conformance', en: 'Conformance suite', zh: '一致性测试套件' },
    ],
  },
  { en: 'Decisions', zh: '设计决策', entries: [{ folder: 'adr' }], closed: true },
]

/** A page with its name in one language. */
export interface Named {
  readonly page: string
  readonly name: string
}

export function pagesOf({ entries }: Group, language: Language): Named[] {
  return entries.flatMap((entry) =>
    'page' in entry
      ? [{ page: entry.page, name: entry[language] }]
      : pagesIn(entry.folder).map((page) => ({ page, name: headingOf(page, language) })),
  )
}

export function isThere(page: string, language: Language): boolean {
  return existsSync(fileOf(page, language))
}

function fileOf(page: string, language: Language): string {
  return `${docs}${language === 'zh' ? 'zh/' : ''}${page}.md`
}

/** A folder's pages by name, its README or index first. */
function pagesIn(folder: string): string[] {
  if (!existsSync(docs + folder)) return []
  const names = readdirSync(docs + folder)
    .filter((name) => name.endsWith('.md'))
    .map((name) => name.slice(0, -'.md'.length))
    .sort()
  const first = names.filter((name) => /^(README|index)$/.test(name))
  return [...first, ...names.filter((name) => !first.includes(name))].map((name) => `${folder}/${name}`)
}

function headingOf(page: string, language: Language): string {
  const file = fileOf(page, isThere(page, language) ? language : 'en')
  const [, heading = page] = /^# (.+)$/m.exec(readFileSync(file, 'utf8')) ?? []
  return heading.replaceAll('`', '')
}
