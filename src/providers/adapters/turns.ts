/** A conversation as the dialects want it that allow each side one turn at a time. */
import type { Message } from '../conversation.ts'

type Assistant = Extract<Message, { role: 'assistant' }>
type User = Extract<Message, { role: 'system' | 'user' }>
type Result = Extract<Message, { role: 'tool' }>

export type Turn =
  | { readonly from: 'model'; readonly messages: readonly Assistant[] }
  /** Results come before the words that were said after them. */
  | { readonly from: 'user'; readonly messages: readonly (User | Result)[] }

/** All system texts in one, wherever they stand; undefined if there is none. */
export function systemText(messages: readonly Message[]): string | undefined {
  const texts = spoken(messages)
    .filter((message) => message.role === 'system')
    .map((message) => message.text)
  return texts.length === 0 ? undefined : texts.join('\n\n')
}

/** What says nothing is left out: some servers refuse it. */
export function spoken(messages: readonly Message[]): Message[] {
  return messages.filter((message) => {
    if (message.role === 'tool' || message.text !== '') return true
    return message.role === 'assistant' && message.toolCalls.length > 0
  })
}

/** Neighbours of one side are joined. */
export function turns(messages: readonly Message[]): Turn[] {
  const joined: { from: 'model' | 'user'; messages: Message[] }[] = []
  for (const message of spoken(messages)) {
    if (message.role === 'system') continue
    const from = message.role === 'assistant' ? 'model' : 'user'
    const last = joined.at(-1)
    if (last?.from === from) last.messages.push(message)
    else joined.push({ from, messages: [message] })
  }
  return joined as Turn[]
}
