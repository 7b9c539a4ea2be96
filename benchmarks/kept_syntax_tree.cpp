// A plugin for clang that keeps what it has parsed, for `compile_ideas.py --clang-headers`.
//
// `#pragma ckwatch_keep` instantiates all templates that are due, and then forks for every line of standard input: a
// child goes on with the lines behind the pragma and writes its object into the file that the line names. On standard
// error: "ready", and for each child its status and the seconds of the processor that it used.

#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clang/Frontend/CompilerInstance.h"
#include "clang/Frontend/FrontendPluginRegistry.h"
#include "clang/Lex/Pragma.h"
#include "clang/Lex/Preprocessor.h"
#include "clang/Sema/Sema.h"

namespace {

clang::CompilerInstance* compiler;

double seconds(const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

struct Keep : clang::PragmaHandler {
    Keep() : PragmaHandler("ckwatch_keep") {}

    void HandlePragma(clang::Preprocessor& preprocessor, clang::PragmaIntroducer, clang::Token&) override {
        clang::Token rest;
        do {
            preprocessor.LexUnexpandedToken(rest);
        } while (rest.isNot(clang::tok::eod));
        compiler->getSema().PerformPendingInstantiations();
        std::fputs("ready\n", stderr);
        char output[4096];
        FILE* input = fdopen(dup(STDIN_FILENO), "r");
        while (std::fgets(output, sizeof output, input) != nullptr) {
            output[std::strcspn(output, "\n")] = '\0';
            const pid_t child = fork();
            if (child == 0) {
                const int file = open(output, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644);
                if (file < 0 || dup2(file, STDOUT_FILENO) < 0) {
                    _exit(2);
                }
                return;
            }
            int status = 1;
            rusage used{};
            wait4(child, &status, 0, &used);
            std::fprintf(stderr, "%d %.3f\n", status, seconds(used.ru_utime) + seconds(used.ru_stime));
        }
        _exit(0);
    }
};

struct Action : clang::PluginASTAction {
    std::unique_ptr<clang::ASTConsumer> CreateASTConsumer(clang::CompilerInstance& made, llvm::StringRef) override {
        compiler = &made;
        made.getPreprocessor().AddPragmaHandler(new Keep());
        return std::make_unique<clang::ASTConsumer>();
    }

    bool ParseArgs(const clang::CompilerInstance&, const std::vector<std::string>&) override { return true; }

    ActionType getActionType() override { return AddBeforeMainAction; }
};

const clang::FrontendPluginRegistry::Add<Action> registered("ckwatch-keep", "keep what was parsed");

}  // namespace
