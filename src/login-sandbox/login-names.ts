/** The names of a login's sandbox and volumes. */
import { CraikError } from '../errors.ts'

/** The format of GitHub's names, in lower case. Login names become names of sandboxes, folders and images. */
const LOGIN = /^[a-z0-9](?:[a-z0-9-]{0,37}[a-z0-9])?$/

/** Replaces underscores, which occur in the names of accounts that an enterprise manages. */
export function parseLoginName(text: string, where: string): string {
  const login = text.trim().toLowerCase().replaceAll('_', '-')
  if (LOGIN.test(login)) return login
  throw new CraikError('usage', `${where} is not a valid login: use letters, digits and -, at most 39`, {
    hint: 'choose a login name:  SANDBOX_LOGIN=octo craik up',
  })
}

/** Returns the valid login name that is closest to a user's name. */
export function loginFrom(userName: string): string {
  const near = userName
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-+/, '')
    .slice(0, 39)
    .replace(/-+$/, '')
  return near === '' ? 'local' : near
}

const SUFFIX = '-sandbox'

export function sandboxNameOf(login: string): string {
  return `${login}${SUFFIX}`
}

export function loginOfSandbox(name: string): string | undefined {
  const login = name.endsWith(SUFFIX) ? name.slice(0, -SUFFIX.length) : ''
  return LOGIN.test(login) ? login : undefined
}

const CONVERSATIONS_SUFFIX = '-llm'

/** Returns the login whose conversations the volume of that name stores. */
export function loginOfConversations(volume: string): string | undefined {
  const login = volume.endsWith(CONVERSATIONS_SUFFIX) ? volume.slice(0, -CONVERSATIONS_SUFFIX.length) : ''
  return LOGIN.test(login) ? login : undefined
}

export interface LoginVolume {
  readonly name: string
  /** Relative to the sandbox home. */
  readonly at: string
  /** A description for the user. */
  readonly holds: string
}

export function volumesOf(login: string): readonly LoginVolume[] {
  return [
    {
      name: `${login}${CONVERSATIONS_SUFFIX}`,
      at: '.config/llm-state',
      holds: 'conversations and settings of the agents',
    },
    { name: `${login}-toolchains`, at: '.local', holds: 'packages of npm and pip' },
    { name: `${login}-gh`, at: '.config/gh', holds: 'settings of gh' },
  ]
}
