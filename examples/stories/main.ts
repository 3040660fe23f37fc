/** Runs all stories on your server: `MYSQL_URL=mysql://root@localhost/test node build/examples/stories/main.js`. Drops tables! */
import { crowd, pausedHolder, stories } from './run-story.js'

const url = process.env['MYSQL_URL']
if (url === undefined) throw new TypeError('set MYSQL_URL to an empty database: tables are dropped in it')
for (const [name, story] of Object.entries(stories)) {
  const alone = await crowd(url, story, 'bare')
  const locked = await crowd(url, story, 'locked')
  const paused = await pausedHolder(url, name, 'locked')
  const guarded = await pausedHolder(url, name, 'guarded')
  console.log(
    `${name}: lost ${alone} without the lock, ${locked} with it, ${paused.loss} when its holder was stopped, ${guarded.loss} with the guard (${guarded.told})`,
  )
}
