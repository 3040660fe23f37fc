#!/usr/bin/env node
/**
 * The program `holdfast`. Starting Node and loading files take most of its time. So `--version` loads next to nothing else, and `run` starts the
 * process that holds the lock before it loads the rest. Node's compile cache is not used: its default folder is one that other users of the
 * machine can create first.
 */
const argv = process.argv.slice(2)
if (argv.length === 1 && (argv[0] === '--version' || argv[0] === '-V')) {
  const [{ version }, { watchOutput }] = await Promise.all([import('./version.js'), import('./output.js')])
  watchOutput()
  console.log(version())
} else {
  if (argv[0] === 'run' && argv.includes('--')) (await import('./run/spawn-helpers.js')).startEarly()
  const { main } = await import('./program.js')
  void main(argv)
}
