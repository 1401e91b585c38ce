/** Names of Debian packages, as a person asks for them: read strictly, because programs that run as root get them. */
import { CraikError } from '../../../../errors.ts'

/** As Debian's policy has it: lower case, at least two characters; no version, no architecture, no option. */
const NAME = /^[a-z0-9][a-z0-9+.-]{1,99}$/
const MAX_PACKAGES = 100

/** `jq,ripgrep` as names in order, each once. */
export function parsePackages(text: string): readonly string[] {
  return checkPackages(text.split(',').map((name) => name.trim()))
}

/** What apt complains of when a package is not there, in either of its wordings; undefined when it is something else. */
export function missingPackage(said: string): CraikError | undefined {
  const missing = /Unable to locate package (\S+)|Package '([^']+)' has no installation candidate/.exec(said)
  const name = missing?.[1] ?? missing?.[2]
  if (name === undefined) return undefined
  return new CraikError('not_found', `Debian has no package ${name.slice(0, 100)}`, {
    hint: 'check the name on a Debian machine:  apt-cache policy NAME',
  })
}

export function checkPackages(names: readonly string[]): readonly string[] {
  const wrong = names.find((name) => !NAME.test(name))
  if (wrong !== undefined)
    throw new CraikError(
      'usage',
      `${JSON.stringify(wrong.slice(0, 100))} is not a valid Debian package name`,
      {
        hint: 'use lower-case names without versions, separated by commas:  --apt jq,ripgrep',
      },
    )
  const unique = [...new Set(names)].sort()
  if (unique.length > MAX_PACKAGES)
    throw new CraikError('usage', `${unique.length} packages are too many for one image`, {
      hint: `use at most ${MAX_PACKAGES}`,
    })
  return unique
}
