// What becomes of the links of a page: those to pages stay (a Chinese page leads to the Chinese one where there is one); those to other
// files of the repository, tests for the most part, lead to a copy of the file's text that the site carries, or into the repository if
// HOLDFAST_REPOSITORY gives its address; a folder's link becomes plain text.
import { cpSync, existsSync, mkdirSync, readFileSync, statSync } from 'node:fs'
import { dirname, join, posix } from 'node:path'
import type { MarkdownRenderer } from 'vitepress'
import { parseAnchors } from '../../test/support/markdown.js'
import { docs } from './pages.js'

const repository = join(docs, '..')

/** Files whose text the site carries, by their path from the root of the repository. */
const carried = new Set<string>()

export interface Site {
  /** Path below which the site is served, with a slash at both ends. */
  readonly base: string
  /** Address of the repository's files on some branch, with a slash at its end; `undefined`: the site carries what it links to. */
  readonly repository: string | undefined
}

/** Where a link of the page leads (`page` as a path below docs/): its new target, or `undefined` for plain text. */
export function targetOf(
  target: string,
  page: string,
  site: Site,
): { href: string; out: boolean } | undefined {
  if (/^([a-z][a-z+.-]*:|#|\/)/i.test(target)) return { href: target, out: false }
  const [file = '', anchor] = target.split('#')
  const path = posix.join('docs', posix.dirname(page), decodeURI(file))
  const hash = (name: string | undefined): string => (name ? `#${name}` : '')
  if (path.startsWith('docs/') && path.endsWith('.md')) {
    const below = path.slice('docs/'.length)
    const chinese = page.startsWith('zh/') && !below.startsWith('zh/') && existsSync(`${docs}zh/${below}`)
    const to = `/${chinese ? `zh/${below}` : below}`.replace(/\.md$/, '').replace(/\/README$/, '/')
    return { href: to + hash(chinese && anchor ? chineseAnchor(below, anchor) : anchor), out: false }
  }
  const full = join(repository, path)
  if (site.repository) return { href: `${site.repository}${path}${hash(anchor)}`, out: true }
  if (!existsSync(full) || statSync(full).isDirectory()) return undefined
  carried.add(path)
  return { href: `${site.base}files/${path}.txt`, out: true }
}

/** The Chinese page's anchor in the place that `anchor` has in the English one: both have the same headings. */
function chineseAnchor(page: string, anchor: string): string {
  const [english = [], chinese = []] = ['', 'zh/'].map((folder) => [
    ...parseAnchors(readFileSync(`${docs}${folder}${page}`, 'utf8')),
  ])
  return chinese[english.indexOf(anchor)] ?? anchor
}

/** Makes the links of every page lead where {@link targetOf} says. */
export function links(md: MarkdownRenderer, site: Site): void {
  md.core.ruler.push('holdfast-links', ({ tokens, env }) => {
    const page = (env as { relativePath?: string }).relativePath ?? ''
    for (const { children } of tokens) {
      let plain = false
      for (const token of children ?? []) {
        if (token.type === 'link_open') {
          const href = token.attrGet('href') ?? ''
          const led = targetOf(href, page, site)
          plain = led === undefined
          if (led === undefined) {
            token.tag = 'span'
            token.attrs = [['title', href.replace(/^(\.\.\/)+/, '')]]
            token.type = 'span_open'
          } else {
            token.attrSet('href', led.href)
            if (led.out) for (const [name, value] of outside) token.attrSet(name, value)
          }
        } else if (token.type === 'link_close' && plain) {
          token.tag = 'span'
          token.type = 'span_close'
          plain = false
        }
      }
    }
  })
}

const outside = [
  ['target', '_blank'],
  ['rel', 'noreferrer'],
] as const

/** Copies what the pages' links lead to into the built site. */
export function carry(out: string): void {
  for (const path of carried) {
    const to = join(out, 'files', `${path}.txt`)
    mkdirSync(dirname(to), { recursive: true })
    cpSync(join(repository, path), to)
  }
}

/** The same files' text for the server of `npm run docs`; only what some page links to. */
export function carriedText(url: string, { base }: Site): string | undefined {
  const path = url.startsWith(`${base}files/`)
    ? decodeURI(url.slice(`${base}files/`.length)).replace(/\.txt$/, '')
    : ''
  return carried.has(path) ? readFileSync(join(repository, path), 'utf8') : undefined
}
