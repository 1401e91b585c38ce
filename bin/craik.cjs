#!/usr/bin/env node
// Runs on any Node, however old, to say in one line which one is needed.
const { existsSync, lstatSync, mkdirSync, realpathSync, statSync } = require('fs')
const { enableCompileCache } = require('module')
const { homedir } = require('os')
const { dirname, isAbsolute, join } = require('path')
const { pathToFileURL } = require('url')

const major = Number(process.versions.node.split('.')[0])
const source = join(__dirname, '..', 'src', 'main.ts')
const compiled = source.replace(/ts$/, 'cjs')

if (major < 24) {
  process.stderr.write(
    `craik: needs Node 24 or newer, but this is Node ${process.versions.node}: install a newer one, e.g.  npm install -g n && n 24\n`,
  )
  process.exit(69)
} else {
  // Before the first file of Craik is read: then none of them is TypeScript that has to be compiled once more.
  const cache = process.argv.includes('verify') ? undefined : privateCache()
  if (cache !== undefined) enableCompileCache(join(cache, 'compile'))
  existsSync(compiled) ? require(compiled) : import(pathToFileURL(source).href)
}

// As in src/lib/user-cache.ts, which cannot be loaded yet: undefined where somebody else could put code.
function privateCache() {
  const chosen = process.env.XDG_CACHE_HOME || ''
  const home = isAbsolute(process.env.HOME || '') ? process.env.HOME : homedir()
  const usual = join(home, process.platform === 'darwin' ? 'Library/Caches' : '.cache')
  const folder = join(isAbsolute(chosen) ? chosen : usual, 'craik')
  const own = process.geteuid()
  try {
    let nearest = dirname(folder)
    while (!existsSync(nearest)) nearest = dirname(nearest)
    const [ownHome, here] = [realpathSync(home), realpathSync(process.cwd())]
    for (const start of [folder, realpathSync(nearest)])
      for (let above = start; above !== dirname(above); above = dirname(above)) {
        if (ownHome === above || ownHome.startsWith(`${above}/`)) break
        if (above === here || existsSync(join(above, '.git'))) return undefined
      }
    for (const start of [nearest, realpathSync(nearest)])
      for (let above = start; ; above = dirname(above)) {
        const { uid, mode } = statSync(above)
        if ((uid !== 0 && uid !== own) || ((mode & 0o022) !== 0 && (mode & 0o1000) === 0)) return undefined
        if (above === dirname(above)) break
      }
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    const found = lstatSync(folder)
    return found.isDirectory() && found.uid === own && (found.mode & 0o077) === 0 ? folder : undefined
  } catch (_error) {
    return undefined
  }
}
