/** File in build/dist of an entry point, by its key in the `exports` of package.json: `./guard/testing` is `guard-testing.js`. */
export const builtFile = (path: string): string =>
  `${path.replace(/^\.\/?/, '').replaceAll('/', '-') || 'index'}.js`
