#!/usr/bin/env node
// Runs on any Node, however old, to say in one line which one is needed.
const { existsSync, lstatSync } = require('fs')
const { enableCompileCache } = require('module')
const { homedir } = require('os')
const { join, resolve } = require('path')
const { pathToFileURL } = require('url')

const major = Number(process.versions.node.split('.')[0])
const source = join(__dirname, '..', 'src', 'main.ts')
const compiled = source.replace(/ts$/, 'js')

if (major < 24) {
  process.stderr.write(
    `craik: needs Node 24 or newer, and this is Node ${process.versions.node}: install a newer one, e.g.  npm install -g n && n 24\n`,
  )
  process.exit(69)
} else {
  // Before the first file of Craik is read: then none of them is TypeScript that has to be compiled once more.
  const home = resolve(process.env.CRAIK_HOME || join(homedir(), '.craik'))
  if (isPrivate(home)) enableCompileCache(join(home, 'cache'))
  import(pathToFileURL(existsSync(compiled) ? compiled : source).href)
}

// As in src/main.ts: compiled code is kept only where nobody else can put some.
function isPrivate(folder) {
  try {
    const stats = lstatSync(folder)
    return stats.isDirectory() && stats.uid === process.geteuid() && (stats.mode & 0o077) === 0
  } catch (_error) {
    return false
  }
}
