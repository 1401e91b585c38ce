/**
 * Parses names of Debian packages from the user. The check is strict, because programs that run as root receive them.
 */
import { CraikError } from '../../../../errors.ts'

/** Debian's policy: lower case, at least two characters. No version, architecture or option. */
const NAME = /^[a-z0-9][a-z0-9+.-]{1,99}$/
const MAX_PACKAGES = 100

/** Parses `jq,ripgrep` into sorted, unique names. */
export function parsePackages(text: string): readonly string[] {
  return checkPackages(text.split(',').map((name) => name.trim()))
}

/**
 * Returns an error when apt reports that a package does not exist, in either of its wordings. `undefined` for any other
 * output.
 */
export function missingPackage(output: string): CraikError | undefined {
  const missing = /Unable to locate package (\S+)|Package '([^']+)' has no installation candidate/.exec(
    output,
  )
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
