/** Finds paths that exist only on one machine: home folders, temporary folders, mounts, checkouts. */
import type { Breach, Rule } from './rule.ts'

/**
 * The names below these folders differ on each machine. System folders such as /etc and /proc are the same everywhere.
 */
const OWN_FOLDERS =
  `home Users root tmp work workspaces mnt media srv data scratch opt Volumes __w private/tmp private/var
  var/tmp var/folders var/home var/www run/user`.split(/\s+/)

const SLASH = String.raw`(?:\\?\/|%2F)`
const OWN = OWN_FOLDERS.map((folder) => folder.replace('/', SLASH)).join('|')

/**
 * A name such as `<you>`, `$USER`, `*` or `…` is only an example, and the folder alone (`/tmp`) is the same everywhere.
 * Neither matches.
 */
const UNIX = new RegExp(
  String.raw`(?<![\w.~)}\]/%-])${SLASH}(?:${OWN})${SLASH}(?![<$*…{]|\.\.\.)[^\s"'${'`'}<>|,;)\]]+`,
  'gi',
)
const WINDOWS =
  /\b[A-Za-z]:[\\/]{1,2}(?:Users|Documents and Settings|Windows|Program Files|Temp|work|home|src|dev|projects)\b[^\s"'`]*/gi
const FILE_URL = /\bfile:\/\/(?:localhost)?\/(?![<$…])[^\s"'`)]+/gi

/**
 * Paths that are the same on every machine that has them, the folders of every sandbox, and the example names of the
 * docs.
 */
const EVERYWHERE =
  /^\/(?:opt\/homebrew|home\/agent|opt\/craik(?:-harnesses)?|home\/ada|mnt\/(?:library|NAME)|srv\/craik|run\/user\/1000)(?![\w.-])/

export const localPaths: Rule = {
  name: 'local-path',
  instead: 'a path under ~/.craik or relative to the repository',
  *find(text): Iterable<Breach> {
    for (const pattern of [UNIX, WINDOWS, FILE_URL])
      for (const match of text.matchAll(pattern))
        if (!EVERYWHERE.test(match[0])) yield { start: match.index, what: match[0] }
  },
}
