/**
 * Fails when a page links to a file or a heading that does not exist, or names a file of the repository that does not
 * exist.
 */
import { existsSync, globSync, readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'

const ROOT = join(import.meta.dirname, '..')
const PAGES = ['*.md', 'docs/**/*.md', 'bench/*.md']
/** These pages name files of a reader's project. */
const USER_PAGES = /^docs\/(?:tutorials|how-to)\//

/** Returns each broken link with its page and line. Text in code blocks does not count. */
export function findBrokenLinks(root: string): string[] {
  const anchors = new Map<string, ReadonlySet<string>>()
  const anchorsOf = (page: string) => {
    if (!anchors.has(page)) anchors.set(page, headingAnchors(readFileSync(join(root, page), 'utf8')))
    return anchors.get(page)!
  }
  return globSync(PAGES, { cwd: root })
    .sort()
    .flatMap((page) => {
      const text = withoutBlocks(readFileSync(join(root, page), 'utf8'))
      return text.split('\n').flatMap((line, at) => {
        const broken = linksIn(line).filter((link) => {
          const [path, anchor] = link.split('#')
          const target = path === '' ? page : normalize(join(dirname(page), decodeURI(path!)))
          if (!existsSync(join(root, target))) return true
          return anchor !== undefined && target.endsWith('.md') && !anchorsOf(target).has(anchor)
        })
        const missing = USER_PAGES.test(page)
          ? []
          : pathsIn(line).filter((path) => !isInRepository(root, path))
        return [...broken, ...missing].map((each) => `${page}:${at + 1}: ${each} does not exist`)
      })
    })
}

/** Returns the relative links, with their anchors. */
function linksIn(line: string): string[] {
  const text = line.replaceAll(/`[^`]*`/g, '')
  const targets = [
    ...text.matchAll(/\]\(<?([^)\s>]+)>?(?: "[^"]*")?\)/g),
    ...text.matchAll(/^\[[^\]]+\]: (\S+)/g),
  ]
  return targets.map(([, target]) => target!).filter((target) => !/^[a-z]+:/i.test(target))
}

function pathsIn(line: string): string[] {
  const paths = line.matchAll(/(?<![\w./~-])(?:src|test|scripts|bench)\/[\w./*{},-]+/g)
  return [...paths].map(([path]) => path.replace(/[.,]+$/, ''))
}

function isInRepository(root: string, path: string): boolean {
  return existsSync(join(root, path)) || (/[*{]/.test(path) && globSync(path, { cwd: root }).length > 0)
}

/** Returns the anchors that GitHub gives to the headings of a page. */
export function headingAnchors(page: string): ReadonlySet<string> {
  const anchors = new Set<string>()
  const text = withoutBlocks(page)
  for (const [, id] of text.matchAll(/<a (?:id|name)="([^"]+)"/g)) anchors.add(id!)
  for (const [, heading] of text.matchAll(/^#{1,6} +(.+?) *#*$/gm)) {
    const plain = heading!.replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1').replaceAll(/[`*]/g, '')
    const name = plain
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}_ -]/gu, '')
      .replaceAll(' ', '-')
    let anchor = name
    for (let count = 1; anchors.has(anchor); count++) anchor = `${name}-${count}`
    anchors.add(anchor)
  }
  return anchors
}

/** Blanks the code blocks. The numbers of the lines stay the same. */
function withoutBlocks(text: string): string {
  return text.replaceAll(/^( *)(`{3,}|~{3,})[\s\S]*?^\1\2/gm, (block) => block.replaceAll(/[^\n]/g, ''))
}

if (import.meta.main) {
  const broken = findBrokenLinks(ROOT)
  for (const each of broken) console.error(each)
  if (broken.length > 0) process.exitCode = 1
}
