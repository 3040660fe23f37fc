// The documentation site: English pages in docs/, Chinese ones at the same paths below docs/zh/. `npm run docs` serves it while it is
// written, `npm run docs:build` builds it into build/site and fails on a dead link. Settings from outside:
//
//   HOLDFAST_SITE_BASE    path below which the site is served, such as /holdfast/; default /
//   HOLDFAST_REPOSITORY   address of the repository's files, with a slash at its end; default: the site carries the files it links to
import type { DefaultTheme, UserConfig } from 'vitepress'
import { toAnchor } from '../../test/support/markdown.js'
import { carriedText, carry, links, type Site } from './links.js'
import { groups, isThere, type Language, pagesOf } from './pages.js'
import { tokenize } from './search.js'

const site: Site = {
  base: process.env['HOLDFAST_SITE_BASE'] ?? '/',
  repository: process.env['HOLDFAST_REPOSITORY'],
}

const config: UserConfig<DefaultTheme.Config> = {
  title: 'holdfast',
  base: site.base,
  outDir: '../build/site',
  cacheDir: '../build/site-cache',
  rewrites: { 'adr/README.md': 'adr/index.md', 'zh/adr/README.md': 'zh/adr/index.md' },
  locales: {
    root: {
      label: 'English',
      lang: 'en',
      description: 'Distributed locks for TypeScript',
      themeConfig: themeOf('en'),
    },
    zh: { label: '简体中文', lang: 'zh-CN', description: 'TypeScript 分布式锁', themeConfig: themeOf('zh') },
  },
  themeConfig: {
    search: {
      provider: 'local',
      options: {
        miniSearch: { options: { tokenize }, searchOptions: { combineWith: 'AND' } },
        locales: { zh: { translations: chineseSearch() } },
      },
    },
  },
  markdown: {
    anchor: { slugify: toAnchor },
    config: (md) => links(md, site),
  },
  buildEnd: ({ outDir }) => carry(outDir),
  vite: {
    plugins: [
      {
        name: 'holdfast-files',
        configureServer(server) {
          server.middlewares.use((request, response, next) => {
            const text = carriedText(request.url ?? '', site)
            if (text === undefined) return next()
            response.setHeader('Content-Type', 'text/plain; charset=utf-8')
            response.end(text)
          })
        },
      },
    ],
  },
}

export default config

function themeOf(language: Language): DefaultTheme.Config {
  const link = (page: string): string => {
    const prefix = language === 'zh' && isThere(page, 'zh') ? '/zh/' : '/'
    return `${prefix}${page}`.replace(/\/README$/, '/')
  }
  const english = (page: string): string => (language === 'zh' && !isThere(page, 'zh') ? '（英文）' : '')
  const nav = ['start', 'which-one', 'production', 'bench'].flatMap((page) =>
    groups
      .flatMap((group) => pagesOf(group, language))
      .filter((named) => named.page === page && isThere(page, 'en'))
      .map(({ name }) => ({ text: name, link: link(page) })),
  )
  return {
    nav,
    outline: { level: [2, 3], ...(language === 'zh' && { label: '本页目录' }) },
    sidebar: groups
      .map((group) => ({
        text: group[language],
        collapsed: group.closed ?? false,
        items: pagesOf(group, language)
          .filter(({ page }) => isThere(page, 'en'))
          .map(({ page, name }) => ({ text: `${name}${english(page)}`, link: link(page) })),
      }))
      .filter(({ items }) => items.length > 0),
    ...(language === 'zh' && chineseTheme()),
  }
}

function chineseTheme(): DefaultTheme.Config {
  return {
    docFooter: { prev: '上一页', next: '下一页' },
    darkModeSwitchLabel: '外观',
    lightModeSwitchTitle: '切换到浅色',
    darkModeSwitchTitle: '切换到深色',
    sidebarMenuLabel: '目录',
    returnToTopLabel: '回到顶部',
    langMenuLabel: '语言',
    skipToContentLabel: '跳到正文',
    notFound: { title: '没有这一页', quote: '', linkText: '回首页', linkLabel: '回首页' },
  }
}

function chineseSearch(): NonNullable<DefaultTheme.LocalSearchOptions['translations']> {
  return {
    button: { buttonText: '搜索', buttonAriaLabel: '搜索' },
    modal: {
      displayDetails: '显示详情',
      resetButtonTitle: '清除',
      backButtonTitle: '关闭',
      noResultsText: '没有结果：',
      footer: { selectText: '打开', navigateText: '切换', closeText: '关闭' },
    },
  }
}
