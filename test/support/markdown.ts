// The two things tests look for in Markdown: code and links.
import { posix } from 'node:path'

/** A fenced block of code. */
export interface Fence {
  readonly language: string
  readonly code: string
  /** Line of the file on which the code begins, from 1. */
  readonly line: number
}

/** A link or picture. */
export interface Link {
  readonly target: string
  readonly line: number
}

/** The fenced blocks of a page. */
export function parseFences(page: string): Fence[] {
  const fences: Fence[] = []
  let open: { language: string; mark: string; line: number; lines: string[] } | undefined
  for (const [at, line] of page.split('\n').entries()) {
    const [, mark = '', language = ''] = /^\s*(`{3,}|~{3,})\s*([^\s`]*)/.exec(line) ?? []
    if (open === undefined) {
      if (mark) open = { language, mark, line: at + 2, lines: [] }
    } else if (mark.startsWith(open.mark) && language === '') {
      fences.push({ language: open.language, code: open.lines.join('\n'), line: open.line })
      open = undefined
    } else open.lines.push(line)
  }
  return fences
}

/** The links of a page that are not in code. */
export function parseLinks(page: string): Link[] {
  const links: Link[] = []
  for (const [at, line] of prose(page).split('\n').entries()) {
    for (const [, inline, reference] of line.matchAll(
      /\]\(\s*<?([^\s)>]+)>?[^)]*\)|^\s*\[[^\]]+\]:\s*(\S+)/g,
    )) {
      links.push({ target: inline ?? reference ?? '', line: at + 1 })
    }
  }
  return links
}

/** The anchors that a page's headings get. */
export function parseAnchors(page: string): Set<string> {
  const anchors = new Set<string>()
  for (const [, heading = ''] of prose(page, false).matchAll(/^#{1,6}\s+(.+?)\s*#*$/gm)) {
    const slug = toAnchor(heading.replace(/\[([^\]]*)\]\([^)]*\)/g, '$1'))
    let anchor = slug
    for (let again = 1; anchors.has(anchor); again++) anchor = `${slug}-${again}`
    anchors.add(anchor)
  }
  return anchors
}

/** The anchor of a heading's text, as GitHub makes it and so our site. */
export function toAnchor(heading: string): string {
  return heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\s_-]/gu, '')
    .replace(/\s/g, '-')
}

/** One line per relative link that leads nowhere. `read` gives a file's text, or `undefined` if there is none. */
export function brokenLinks(
  path: string,
  page: string,
  read: (path: string) => string | undefined,
): string[] {
  const broken: string[] = []
  for (const { target, line } of parseLinks(page)) {
    if (/^[a-z][a-z+.-]*:/i.test(target)) continue
    const [file = '', anchor] = target.split('#')
    const there = file === '' ? path : posix.join(posix.dirname(path), decodeURI(file))
    const text = file === '' ? page : read(there)
    if (text === undefined) broken.push(`${path}:${line}: there is no ${there}`)
    else if (anchor && there.endsWith('.md') && !parseAnchors(text).has(anchor)) {
      broken.push(`${path}:${line}: ${there} has no heading #${anchor}`)
    }
  }
  return broken
}

/** The page with as many lines, but without what is in fences and, if asked, in `code`. */
function prose(page: string, inline = true): string {
  const lines = page.split('\n')
  for (const { code, line } of parseFences(page)) {
    const count = code.split('\n').length
    lines.fill('', line - 1, line - 1 + count)
  }
  const out = lines.join('\n')
  return inline ? out.replace(/`[^`\n]*`/g, (code) => ' '.repeat(code.length)) : out
}
