/**
 * Combines the settings of a login's sandbox from a profile, the environment and the command line. Each is read once.
 */
import { resolve } from 'node:path'
import { CraikError } from '../errors.ts'
import { CREDENTIAL_MODES, type CredentialMode } from '../sandboxes/backend.ts'
import { parseLoginName } from './login-names.ts'
import { homeOf, type ProfileVariable, readProfile } from './login-profile.ts'

export interface TypedOptions {
  readonly profile?: string | undefined
  readonly login?: string | undefined
  readonly workspace?: string | undefined
  readonly backend?: string | undefined
  readonly credentials?: string | undefined
  readonly egress?: string | undefined
  readonly apt?: string | undefined
  readonly inbox?: string | undefined
  readonly harness?: string | undefined
}

export interface LoginSandboxSettings {
  readonly profile: string | undefined
  /** The options that select the same profile and login in a later command, whatever selected them now. */
  readonly selectingOptions: readonly string[]
  /** Undefined until it is determined from the GitHub login or the user's name. */
  readonly login: string | undefined
  /** The name that the GitHub login must have. */
  readonly expectedLogin: string | undefined
  readonly workspace: string
  readonly inbox: string
  /** Undefined for the best available backend. */
  readonly backend: 'docker' | 'process' | undefined
  readonly credentials: CredentialMode
  readonly egressPresets: readonly string[]
  readonly packages: string | undefined
  /** The agents, such as `claude-code,codex`. Undefined for all of them. */
  readonly harnesses: string | undefined
  readonly refusePattern: RegExp | undefined
  readonly author: { readonly name: string | undefined; readonly email: string | undefined }
}

const BACKENDS = ['docker', 'process'] as const
const MAX_PATTERN = 4096

export function loadSettings(
  typed: TypedOptions,
  environment: NodeJS.ProcessEnv,
  currentFolder: string,
): LoginSandboxSettings {
  const named = typed.profile ?? (environment.SANDBOX_PROFILE || undefined)
  const profile = named === undefined ? undefined : readProfile(environment, named)
  // A chosen profile overrides the environment, which may still have values of another identity.
  const value = (name: ProfileVariable): string | undefined =>
    (profile?.values[name] ?? environment[name]) || undefined
  const login = typed.login ?? value('SANDBOX_LOGIN')
  const parsedLogin = login === undefined ? undefined : parseLoginName(login, 'SANDBOX_LOGIN')
  const isOfProfile = typed.login === undefined && Boolean(profile?.values.SANDBOX_LOGIN)
  const expected = value('SANDBOX_LOGIN_EXPECTED') ?? profile?.values.SANDBOX_LOGIN
  return {
    profile: profile?.name,
    selectingOptions: [
      ...(profile === undefined ? [] : ['--profile', profile.name]),
      ...(parsedLogin === undefined || isOfProfile ? [] : ['--login', parsedLogin]),
    ],
    login: parsedLogin,
    expectedLogin: expected?.trim().toLowerCase(),
    workspace: resolve(currentFolder, typed.workspace ?? value('SANDBOX_WORKSPACE') ?? '.'),
    inbox: resolve(
      currentFolder,
      typed.inbox ?? value('SANDBOX_INBOX_DIR') ?? `${homeOf(environment)}/inbox`,
    ),
    backend: oneOf(BACKENDS, typed.backend ?? value('SANDBOX_BACKEND'), 'SANDBOX_BACKEND'),
    credentials:
      oneOf(CREDENTIAL_MODES, typed.credentials ?? value('SANDBOX_CREDENTIALS'), 'SANDBOX_CREDENTIALS') ??
      'broker',
    egressPresets: listOf(typed.egress ?? value('SANDBOX_EGRESS')),
    packages: typed.apt ?? value('SANDBOX_APT'),
    harnesses: typed.harness ?? value('SANDBOX_HARNESSES'),
    refusePattern: patternOf(value('SANDBOX_REFUSE_PATTERNS')),
    author: {
      name: authorOf(value('GIT_AUTHOR_NAME'), 'GIT_AUTHOR_NAME'),
      email: authorOf(value('GIT_AUTHOR_EMAIL'), 'GIT_AUTHOR_EMAIL'),
    },
  }
}

function oneOf<T extends string>(
  choices: readonly T[],
  text: string | undefined,
  name: string,
): T | undefined {
  if (text === undefined) return undefined
  const found = choices.find((choice) => choice === text)
  if (found !== undefined) return found
  throw new CraikError(
    'usage',
    `${name} is ${JSON.stringify(text.slice(0, 80))}, but must be one of ${choices.join(', ')}`,
    { hint: `set ${name} to one of these values, or unset it` },
  )
}

function listOf(text: string | undefined): string[] {
  return [...new Set((text ?? '').split(/[\s,]+/).filter((name) => name !== ''))]
}

const REFUSE_PATTERNS =
  'the variable SANDBOX_REFUSE_PATTERNS (names of variables that sandboxes must not see)'
const PATTERN_EXAMPLE = 'use, for example:  SANDBOX_REFUSE_PATTERNS="^(ACME_|CORP_).*"'

function patternOf(text: string | undefined): RegExp | undefined {
  if (text === undefined) return undefined
  if (text.length > MAX_PATTERN)
    throw new CraikError('too_large', `${REFUSE_PATTERNS} has more than 4,096 characters`, {
      hint: `shorten it: ${PATTERN_EXAMPLE}`,
    })
  try {
    return new RegExp(text)
  } catch (cause) {
    // Craik must not ignore an invalid pattern, because it might have refused a variable.
    throw new CraikError('invalid_config', `${REFUSE_PATTERNS} is not a valid regular expression`, {
      hint: PATTERN_EXAMPLE,
      cause,
    })
  }
}

function authorOf(text: string | undefined, name: string): string | undefined {
  if (text === undefined) return undefined
  if (text.length <= 200 && !/[\u0000-\u001f\u007f<>]/.test(text)) return text
  throw new CraikError('usage', `${name} has more than 200 characters, a line break, < or >`)
}
