/** Lists the pages whose commands tests run. */
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { ROOT } from '../craik.ts'
import { parsePage } from './parse-page.ts'

/** Limited, because each page starts a supervisor and sandboxes. */
const PAGES_AT_ONCE = 3

export function docsPages(backend: 'process' | 'docker'): readonly string[] {
  const files = ['README.md', ...globSync('docs/{tutorials,how-to}/*.md', { cwd: ROOT }).sort()]
  return files
    .map((file) => join(ROOT, file))
    .filter((file) => {
      const { needs, blocks, problems } = parsePage(file, readFileSync(file, 'utf8'))
      return blocks.length + problems.length > 0 && needs.docker === (backend === 'docker')
    })
}

let running = 0
const waiting: (() => void)[] = []

/** Runs at most three at once, in the order of their start. */
export function limitPages<A extends unknown[]>(work: (...args: A) => Promise<void>) {
  return async (...args: A): Promise<void> => {
    if (running >= PAGES_AT_ONCE) await new Promise<void>((resume) => waiting.push(resume))
    else running++
    try {
      await work(...args)
    } finally {
      const next = waiting.shift()
      if (next === undefined) running--
      else next()
    }
  }
}
