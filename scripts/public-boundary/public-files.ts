/** Lists the files that the public reads: the pages at the root, everything in docs, and every fixture. */
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'

const PAGES = ['README.md', 'SECURITY.md', 'CONTRIBUTING.md', 'CHANGELOG.md']
const FIXTURE_ROOTS = ['src', 'test', 'scripts', 'bench', 'examples']
/** Every file below `test` that is not a test serves as a fixture: servers, scripts, samples. */
const FIXTURE =
  /(?:\.fixture\.ts|\.fixture\.json|(?:^|\/)(?:fixtures|vectors|cassettes)\/[^/].*|^test\/(?!.*\.test\.ts$).+)$/

/** The list of files must contain these, so that the check does not pass after a folder has moved. */
const EXPECTED: readonly (readonly [string, RegExp])[] = [
  ...PAGES.map((page) => [page, new RegExp(`^${page}$`)] as const),
  ['a page in docs', /^docs\/.+\.md$/],
  ['the vectors in docs/verify/vectors', /^docs\/verify\/vectors\/.+\.jsonl$/],
  ['a fixture in src', /^src\/.+\.fixture\.ts$/],
  ['the servers in test/wire', /^test\/wire\/.+\.ts$/],
]

export interface PublicFiles {
  /** Sorted, and relative to the root. */
  readonly paths: readonly string[]
  /** The expected files that are missing. */
  readonly absent: readonly string[]
}

export function publicFiles(root: string): PublicFiles {
  const paths = [
    ...PAGES.filter((page) => existsSync(join(root, page))),
    ...filesUnder(root, 'docs'),
    ...filesUnder(root, 'bench').filter((path) => path.endsWith('.md')),
    ...FIXTURE_ROOTS.flatMap((folder) => filesUnder(root, folder)).filter((path) => FIXTURE.test(path)),
  ]
  const absent = EXPECTED.filter(([, pattern]) => !paths.some((path) => pattern.test(path)))
  return { paths: [...new Set(paths)].sort(), absent: absent.map(([name]) => name) }
}

function filesUnder(root: string, folder: string): string[] {
  if (!existsSync(join(root, folder))) return []
  return readdirSync(join(root, folder), { withFileTypes: true }).flatMap((entry) => {
    const path = `${folder}/${entry.name}`
    if (entry.isDirectory()) return entry.name === 'node_modules' ? [] : filesUnder(root, path)
    return [path]
  })
}
